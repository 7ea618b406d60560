"""The wing for people's own repositories: jobs, pipelines of jobs, chats, and their service.

job, pipeline, chat  the flows
request, definition  a job and a pipeline as submitted
rows, runs           jobs, runs and steps in the lake
talk, mailbox        the beginning of a chat; attempts as people see them, with their messages
preparing            the repository, its project, image and place, and the experiment of a job
verification         tests before and after a patch, the verdict, and the best patch
agent_rules          the rules for agents that a repository states
changes, body        files that a patch changes; the text of a pull request
commits, publishing  commits of patches; branch and pull request, each at most once
forge                issues and pull requests
approving            approval of a patch that waits
flow_runs, deployed  flow runs, and deployed pipelines, on a Prefect server
mining/              tasks from the merged changes of a repository
service/, cli/       `durabench serve`, and the commands
"""
