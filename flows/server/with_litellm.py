"""Load LiteLLM on import, for processes whose forks need it."""

from agent.models import http

http.load()
