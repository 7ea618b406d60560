"""swebench's own runner, without its delay when it stops containers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@contextmanager
def quick_runner(logs: Path) -> Iterator[ModuleType]:
    """Yield the module of the official runner, with its logs redirected to a folder.

    Its containers ignore signals, so `docker stop` would wait 15 s for each of them. They are
    removed at once instead; nothing else differs.
    """
    from swebench.harness import run_evaluation

    def remove(client: object, container: Any, logger: object) -> None:
        container.remove(force=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run_evaluation, "RUN_EVALUATION_LOG_DIR", logs)
        patch.setattr(run_evaluation, "cleanup_container", remove)
        yield run_evaluation
