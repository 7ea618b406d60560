"""Detection of Go, Rust and make projects."""

import re

from agent.project.suites import Files, Parts, Suite
from agent.testfiles import BY_CONVENTION

_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_TARGETS = ("test", "check", "tests")
_LINTERS = ("lint", "typecheck")


def go(files: Files) -> Parts | None:
    """Return the parts of a Go module, or None if the files show none."""
    if "go.mod" not in files.paths:
        return None
    collects = BY_CONVENTION.collects
    tests = next(
        (path for path in sorted(files.paths) if path.endswith(".go") and collects(path)), None
    )
    return Parts(
        install="go mod download",
        build="go build ./...",
        tests=Suite("go test", "go test -json ./...", "go") if tests else None,
        lint=("go vet ./...",),
        why=["go.mod", *([tests] if tests else [])],
        suffixes=(".go",),
    )


def rust(files: Files) -> Parts | None:
    """Return the parts of a Rust crate or workspace, or None if the files show none."""
    if "Cargo.toml" not in files.paths:
        return None
    sources = (path for path in sorted(files.paths) if path.endswith(".rs"))
    marks = re.compile(r"#\[test\]|::test\]")
    has_tests = (p for p in sources if p.startswith("tests/") or marks.search(files.text(p)))
    tests = next(has_tests, None)
    everything = " --workspace" if "[workspace]" in files.text("Cargo.toml") else ""
    command = f"cargo test{everything} --no-fail-fast"
    return Parts(
        install="cargo fetch",
        build=f"cargo build{everything}",
        tests=Suite("cargo test", command, "cargo") if tests else None,
        lint=(f"cargo clippy{everything} --all-targets --quiet",),
        why=["Cargo.toml", *([tests] if tests else [])],
        suffixes=(".rs",),
    )


def make(files: Files) -> Parts | None:
    """Return the parts of a project with a makefile, or None if there is none."""
    name = next((name for name in _MAKEFILES if name in files.paths), None)
    if name is None:
        return None
    text = files.text(name)
    target = next((target for target in _TARGETS if _has_target(text, target)), None)
    return Parts(
        install=None,
        build="make",
        tests=Suite(f"make {target}", f"make {target}", "exit code") if target else None,
        lint=tuple(f"make {linter}" for linter in _LINTERS if _has_target(text, linter)),
        why=[f"{name}: {target}" if target else name],
        suffixes=(".c", ".h", ".cc", ".cpp", ".hpp"),
    )


def _has_target(makefile: str, target: str) -> bool:
    return re.search(rf"^{target}\s*:(?!=)", makefile, re.MULTILINE) is not None
