"""Simulated models for tests, and a repository in which their calls are executed."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

from agent.models.protocol import ModelReply, ModelRequest
from agent.models.simulated import SimulatedModel
from agent.models.spec import SimulatedSpec
from agent.types import Task
from tests.agent.models.patch_cases import Case, git, make
from tests.agent.models.role_talk import Call

TRUTHFUL = {
    "reviewer_accuracy": 1.0,
    "adjudicator_accuracy": 1.0,
    "correlation": 0.0,
    "insight": 1.0,
    "wrong_anchors": 0.0,
    "overspecified_anchors": 0.0,
    "flaky_anchors": 0.0,
    "conflict_claims": 0.0,
    "asks_for_tests": 0.0,
}
"""Settings of a model that makes no mistakes except by lack of skill, drawn anew in each try."""


def simulated(patch: str, *, seed: int = 1, name: str = "demo__one", **spec: Any) -> SimulatedModel:
    """Return a model that knows a patch, and is right and truthful unless `spec` says otherwise."""
    fields = {"provider": "simulated", "skill": 1.0, **TRUTHFUL, **spec}
    task = Task(name, "It is broken.\n\nReally.", "0" * 40, patch)
    return SimulatedModel(SimulatedSpec.model_validate(fields), task, seed)


def complete(model: SimulatedModel, request: ModelRequest) -> ModelReply:
    """Return one reply."""
    return asyncio.run(model.complete(request))


class Tree:
    """A repository of one of the patch cases, with the tools that change files."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.root = folder
        self.patch = make(case, folder)

    def act(self, call: Call) -> str:
        """Execute a model's tool call. Reading and running tests do nothing here."""
        if call.tool == "apply_patch":
            patch = call.arguments["patch"].encode("utf-8", "surrogateescape")
            git(self.root, "apply", "--whitespace=nowarn", stdin=patch)
        elif call.tool in ("write", "write_new"):
            path = self.root / call.arguments["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(call.arguments["content"])
        return "done"

    def diff(self) -> str:
        """Return the diff from the base commit in the form that workspaces use."""
        git(self.root, "add", "-A")
        options = ("--cached", "--binary", "--full-index", "--no-renames")
        diff = git(self.root, "diff", *options).decode("utf-8", "surrogateescape")
        git(self.root, "reset", "-q")
        return diff

    def reset(self) -> None:
        """Reset the tree to the base commit."""
        subprocess.run(["git", "reset", "-q", "--hard"], cwd=self.root, check=True)
        subprocess.run(["git", "clean", "-fdxq"], cwd=self.root, check=True)

    def reference_diff(self) -> str:
        """Return the diff that the reference patch makes. The tree is left at the base commit."""
        self.reset()
        self.act(Call("apply_patch", {"patch": self.patch}))
        diff = self.diff()
        self.reset()
        return diff
