"""Jobs: a task in a repository, solved by arms, verified, and published as a pull request.

request       a job as submitted
rows          the state of a job in the lake
preparing     the repository, its project, and the cells of the job
placing       the place of its workspaces, and its image
verification  tests before and after a patch, and the verdict
choosing      the patch that is published
commits       the commit of a patch, and its push
forge         issues and pull requests
body          the text of a pull request
publishing    branch and pull request, each at most once
"""
