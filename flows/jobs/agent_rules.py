"""The rules that a repository states for agents, in AGENTS.md, as a part of a job's task."""

from collections.abc import Mapping

from agent.project.suites import Files

NAME = "AGENTS.md"
MOST_CHARACTERS = 12_000
"""Characters of all rules. What is longer is cut, so that the task keeps its weight."""
_MOST_FILES = 10

_HEAD = (
    "\n\nThe repository states rules for agents. Follow them where they fit the task above, which "
    "comes first. Of two rules, the one in the folder nearest to a changed file counts."
)


def read_rules(files: Files) -> dict[str, str]:
    """Return the rules by the paths of their files, the outermost first, cut to the limits."""
    paths = (path for path in files.paths if path.rpartition("/")[2] == NAME)
    room, rules = MOST_CHARACTERS, {}
    for path in sorted(paths, key=lambda path: (path.count("/"), path))[:_MOST_FILES]:
        text = files.text(path).strip()
        if text and room > 0:
            rules[path] = text[:room] + ("\n[cut]" if len(text) > room else "")
            room -= len(text)
    return rules


def add_rules(statement: str, rules: Mapping[str, str]) -> str:
    """Return the statement of a task with the rules of its repository, if there are any."""
    parts = [f"\n\n{path}:\n\n{text}" for path, text in rules.items()]
    return "".join([statement, _HEAD, *parts]) if parts else statement
