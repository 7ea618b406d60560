"""The commands as a user types them."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from eval import instances
from flows.storage.lake import Lake, Row

LIMIT_S = 240
PROGRAM = (sys.executable, "-c", "from flows.cli.app import app; app()")

GOLD = {
    "name": "e",
    "arms": [{"name": "gold", "agent": "gold"}],
    "dataset": "bundled",
    "environment": "host",
    "select": {"ids": [instances.load("bundled")[0].instance_id]},
}
"""An experiment that buys nothing: the reference patch of one task, on the host."""


@dataclass(frozen=True)
class Terminal:
    """A folder in which a user types commands, with a lake in it and no keys of models."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    typed: list[tuple[str, ...]] = field(default_factory=list)
    """The arguments of each command so far."""
    limit_s: float = LIMIT_S
    """Time for one command."""

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: text for name, text in os.environ.items() if "API_KEY" not in name}
        return {**inherited, "COLUMNS": "200", **self.variables}

    def durabench(self, *arguments: str, code: int = 0, typed: str | None = None) -> str:
        """Run a command. Return what it prints, after its exit code was checked."""
        done = self.attempt(*arguments, typed=typed)
        assert done.returncode == code, (
            f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.stdout + done.stderr

    def attempt(
        self, *arguments: str, typed: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command. Return what it prints, with its exit code."""
        self.typed.append(arguments)
        return subprocess.run(
            [*PROGRAM, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            input=typed or "",
            timeout=self.limit_s,
            check=False,
        )

    def refused(self, *arguments: str) -> str:
        """Run a command that is wrong usage. Return the only line that it prints."""
        [line] = self.durabench(*arguments, code=2).splitlines()
        assert line.startswith("durabench: ")
        return line

    def write(self, name: str, content: Any) -> str:
        """Write a YAML file into the folder. Return its name."""
        (self.folder / name).write_text(yaml.safe_dump(content))
        return name

    def begin(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command that runs until it gets a signal."""
        self.typed.append(arguments)
        return subprocess.Popen(
            [*PROGRAM, *arguments], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL
        )

    @property
    def lake(self) -> Lake:
        return Lake.existing(self.folder / "lake")

    def rows(self, table: str) -> list[Row]:
        """Return all rows of a table of the lake."""
        return [row for unit in self.lake.units(table, "*") for row in self.lake.find(table, unit)]
