"""Small ATIF trajectories for the tests of imports and exports."""

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]

HARBOR = "DURABENCH_TEST_HARBOR"
"""A Python of 3.12 or newer with the package harbor."""

HARBOR_JOB = Path(__file__).parent / "harbor_job"
"""A job of Harbor 0.26: two models, two tasks, two trials each, one task out of time."""


def said(text: str, source: str = "user") -> Json:
    return {"source": source, "message": text}


def asked(text: str = "", **more: Any) -> Json:
    """Return a step of an agent with one call of known tokens and cost."""
    metrics = {"prompt_tokens": 100, "completion_tokens": 10, "cached_tokens": 60, "cost_usd": 0.25}
    return {"source": "agent", "message": text, "metrics": metrics, **more}


def ran(command: str, output: str) -> Json:
    """Return a step of an agent that runs a command."""
    call = {"tool_call_id": "c1", "function_name": "bash", "arguments": {"command": command}}
    result = {"source_call_id": "c1", "content": output}
    return asked("I look.", tool_calls=[call], observation={"results": [result]})


def trajectory(*steps: Json, **more: Any) -> Json:
    return {
        "schema_version": "ATIF-v1.7",
        "agent": {"name": "hand", "version": "1.0", "model_name": "acme/large"},
        "steps": [{"step_id": n, **step} for n, step in enumerate(steps, 1)],
        **more,
    }


def write(path: Path, content: Json) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path
