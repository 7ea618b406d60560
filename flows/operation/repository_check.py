"""`durabench doctor --repo`: what is detected in a repository."""

from pathlib import Path

from agent.project import Folder, Project, detect
from flows.display.errors import UsageError
from flows.operation.finding import Finding


def check(path: Path) -> list[Finding]:
    """Return what the files of a folder show: its kind, and its commands.

    Raises:
        UsageError: there is no such folder.
    """
    if not path.is_dir():
        raise UsageError(f"--repo {path}: there is no such folder")
    project = detect(Folder(path))
    if project is None:
        return [
            Finding(
                "note",
                "project: nothing detected; name its test command with `durabench job --verify`",
            )
        ]
    return [
        Finding("ok", f"project: {project.kind} ({project.why})"),
        _command("install", project.install),
        _command("build", project.build),
        _tests(project),
        *([_command("lint", line) for line in project.lint] or [_command("lint", None)]),
    ]


def _command(name: str, command: str | None) -> Finding:
    if command is None:
        return Finding("note", f"{name}: nothing detected")
    return Finding("ok", f"{name}: {command}")


def _tests(project: Project) -> Finding:
    if project.tests is None:
        return Finding(
            "note", "tests: nothing detected; name a command with `durabench job --verify`"
        )
    how = {"observed": "each test is observed", "exit code": "only the exit code is known"}
    read = how.get(project.tests.results, f"results are read as {project.tests.results}")
    return Finding("ok", f"tests: {project.tests.command} ({read})")
