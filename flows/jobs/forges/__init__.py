"""GitHub, GitLab and Gitea behind one protocol."""
