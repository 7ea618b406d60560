"""Load LiteLLM on import, for processes whose forks need it."""

from agent.models import litellm_loading

litellm_loading.load()
