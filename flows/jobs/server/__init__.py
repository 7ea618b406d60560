"""Prefect's server, as jobs, pipelines and chats use it: flow runs, approval and tokens."""
