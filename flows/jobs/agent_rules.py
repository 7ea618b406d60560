"""The rules that a repository states for agents, in AGENTS.md, as a part of a job's task."""

from agent.project.files import Files

NAME = "AGENTS.md"
MOST_CHARACTERS = 12_000
"""Characters of all rules. What is longer is cut, so that the task keeps its weight."""
_MOST_FILES = 10

_HEAD = (
    "\n\nThe repository states rules for agents. Follow them where they fit the task above, which "
    "comes first. Of two rules, the one in the folder nearest to a changed file counts."
)


def find_rules(files: Files) -> list[str]:
    """Return the paths of the files with rules, the outermost first."""
    paths = (path for path in files.paths if path.rpartition("/")[2] == NAME)
    return sorted(paths, key=lambda path: (path.count("/"), path))[:_MOST_FILES]


def add_rules(statement: str, files: Files) -> str:
    """Return the statement of a task with the rules of the repository, if it has any."""
    room, parts = MOST_CHARACTERS, []
    for path in find_rules(files):
        text = files.text(path).strip()
        if text and room > 0:
            cut = "\n[cut]" if len(text) > room else ""
            parts.append(f"\n\n{path}:\n\n{text[:room]}{cut}")
            room -= len(text)
    return "".join([statement, _HEAD, *parts]) if parts else statement
