"""Real programs from npm, installed on this machine by the command of their recipe."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from agent.arms.command.installed import AGENT_FOLDER
from agent.arms.command.recipe import Install, Recipe, load

_FOLDER = Path(tempfile.gettempdir()) / f"durabench-test-agents-{os.getuid()}"


def recipe_from_npm(name: str) -> Recipe:
    """Return a recipe whose program is in a folder of this machine, and install it if need be.

    The test is skipped if there is no npm. All processes and later runs share the folder.
    """
    if shutil.which("npm") is None:
        pytest.skip(f"{name} is installed with npm, and there is none")
    recipe = load(name)
    folder = _FOLDER / f"{recipe.name}-{recipe.version}"
    _FOLDER.mkdir(mode=0o700, exist_ok=True)
    with (_FOLDER / f"{folder.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _install(recipe, folder)
    return recipe.model_copy(update={"install": Install(folder=folder)})


def _install(recipe: Recipe, folder: Path) -> None:
    assert recipe.source is not None
    assert recipe.source.run is not None
    made = Path(tempfile.mkdtemp(dir=_FOLDER))
    made.chmod(0o755)
    command = recipe.source.run.replace(AGENT_FOLDER, str(made))
    done = subprocess.run(["bash", "-ec", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    made.rename(folder)
