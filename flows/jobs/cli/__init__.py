"""The commands of jobs, pipelines, chats and the service."""
