"""Load LiteLLM on import, for processes whose forks need it."""

from agent.models import litellm_api

litellm_api.load()
