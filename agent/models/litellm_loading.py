"""LiteLLM, configured and loaded on first use."""

import functools
import logging
import os
import warnings
from types import ModuleType


@functools.cache
def load() -> ModuleType:
    """Return LiteLLM, configured. The first call takes seconds, so there is no import above."""
    # Its price list is in the package. Without this, it is downloaded on import.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # Sends OpenAI requests like those of all other providers. OpenAI's SDK matches every message
    # against its types, so a call with 100 messages costs 25 ms more through it.
    os.environ.setdefault("EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER", "true")
    import litellm

    litellm.suppress_debug_info = True
    # It puts its own usage into streamed responses of OpenAI. A chat would show the warning.
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)
    if "LITELLM_LOG" not in os.environ:
        logging.getLogger("LiteLLM").setLevel(logging.CRITICAL)
    return litellm
