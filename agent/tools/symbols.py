"""Lines that show definitions and their uses to a model."""

from agent.index.definitions import Definition, Use


def definition_line(found: Definition) -> str:
    """Format as `src/io.py:12-40 method io.Reader.load: def load(self, path) -- Read a file.`"""
    place = f"{found.path}:{found.start}-{found.end} {found.kind} {found.full_name}"
    header = f": {found.signature}" if found.signature else ""
    return f"{place}{header}{f' -- {found.doc}' if found.doc else ''}"


def caller_line(use: Use) -> str:
    """Return a line such as `src/cli.py:7 in cli.main: reader.load`"""
    return f"{use.path}:{use.line} in {use.inside.full_name}: {use.text}{_kind(use)}"


def callee_line(use: Use) -> str:
    """Return a line such as `src/cli.py:7: reader.load is io.Reader.load (src/io.py:12)`"""
    targets = ", ".join(f"{found.full_name} ({found.path}:{found.line})" for found in use.targets)
    return f"{use.path}:{use.line}: {use.text} is {targets}{_kind(use)}"


def _kind(use: Use) -> str:
    certainty = "" if use.is_certain else "possibly"
    call = "" if use.is_call else "not a call"
    notes = ", ".join(note for note in (certainty, call) if note)
    return f" ({notes})" if notes else ""
