"""Detection of Node.js projects: package managers by lock file, test runners by script."""

import json
import re
from collections.abc import Iterator
from typing import Any

from agent.project.suites import Files, Parts, Suite
from agent.runners import Format, get_arguments

_LOCKS = {
    "pnpm-lock.yaml": ("pnpm", "pnpm install --frozen-lockfile"),
    "yarn.lock": ("yarn", "yarn install --frozen-lockfile"),
    "bun.lock": ("bun", "bun install --frozen-lockfile"),
    "bun.lockb": ("bun", "bun install --frozen-lockfile"),
    "npm-shrinkwrap.json": ("npm", "npm ci"),
    "package-lock.json": ("npm", "npm ci"),
}
_NOT_WITH_NODE = ("pnpm", "bun")
"""Package managers that official images of Node.js lack."""

_NO_TESTS = "no test specified"
_SHELL_SYNTAX = re.compile(r"[;&|<>$`]")
_PROGRAM = re.compile(r"^(?:npx )?(?:[A-Z_]+=\S+ )*(?P<name>jest|vitest|mocha|node)\b(?P<rest>.*)")


def node(files: Files) -> Parts | None:
    """Return the parts of a Node.js project, or None if the files show none."""
    if "package.json" not in files.paths:
        return None
    try:
        package = _table(json.loads(files.text("package.json")))
    except ValueError:
        package = {}
    lock, (manager, install) = _find_manager(files)
    if manager in _NOT_WITH_NODE:
        # `packageManager` names the release, and has its hash.
        stated = str(package.get("packageManager", "")).partition("+")[0]
        release = stated if re.fullmatch(rf"{manager}@[\w.-]+", stated) else manager
        get = f"{{ command -v {manager} >/dev/null || npm install --global {release}; }}"
        install = f"{get} && {install}"
    scripts = _texts(package.get("scripts"))
    return Parts(
        install=install,
        build=f"{manager} run build" if "build" in scripts else None,
        tests=_suite(manager, scripts.get("test", "")),
        lint=tuple(_lint(manager, scripts, package, files)),
        why=["package.json", *([lock] if lock else [])],
        suffixes=(".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx"),
    )


def _find_manager(files: Files) -> tuple[str, tuple[str, str]]:
    """Return the lock file, or '', and the package manager with its install command."""
    for lock, manager in _LOCKS.items():
        if lock in files.paths:
            if lock == "yarn.lock" and ".yarnrc.yml" in files.paths:
                return lock, ("yarn", "yarn install --immutable")
            return lock, manager
    return "", ("npm", "npm install")


def _suite(manager: str, script: str) -> Suite | None:
    """Return the test command, with a report if the script is one known program."""
    if not script or _NO_TESTS in script:
        return None
    program = None if _SHELL_SYNTAX.search(script) else _PROGRAM.match(script)
    run = f"{manager} run test" if manager == "bun" else f"{manager} test"
    if program is None or (reporting := _reporting(program)) is None:
        return Suite(run, run, "exit code")
    options, results = reporting
    if results == "tap":  # node takes no options behind its files
        return Suite("node --test", f'NODE_OPTIONS="{options}" {run}', results)
    # Only npm needs the dashes. All others pass options on, and some also pass the dashes on.
    dashes = " --" if manager == "npm" else ""
    return Suite(program["name"], f"{run}{dashes} {options}", results)


def _reporting(program: re.Match[str]) -> tuple[str, Format] | None:
    """Return the options that write a report, and its format; None if there are none."""
    match program["name"]:
        case "jest" | "mocha" as name:
            return get_arguments(name), "jest" if name == "jest" else "mocha"
        case "vitest":
            arguments = get_arguments("vitest")
            has_run = " run" in program["rest"]
            return arguments.removeprefix("--run ") if has_run else arguments, "jest"
        case "node" if re.search(r"--test\b", program["rest"]):
            return get_arguments("node --test"), "tap"
        case _:
            return None


def _lint(
    manager: str, scripts: dict[str, str], package: dict[str, Any], files: Files
) -> Iterator[str]:
    if "lint" in scripts:
        yield f"{manager} run lint"
    for name in ("typecheck", "type-check"):
        if name in scripts:
            yield f"{manager} run {name}"
            return
    depends = _texts(package.get("devDependencies")) | _texts(package.get("dependencies"))
    if "typescript" in depends and "tsconfig.json" in files.paths:
        yield "npx tsc --noEmit"


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(value: Any) -> dict[str, str]:
    return {name: text for name, text in _table(value).items() if isinstance(text, str)}
