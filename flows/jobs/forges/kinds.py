"""The kind of the forge at an address, and its API."""

from functools import cache
from typing import Literal
from urllib.parse import urlsplit

from eval.repositories import RepositorySource
from flows.jobs.forges.gitea import Gitea
from flows.jobs.forges.github import GitHub
from flows.jobs.forges.gitlab import GitLab
from flows.jobs.forges.protocol import Forge
from flows.jobs.forges.rest import Rest

Kind = Literal["github", "gitlab", "gitea"]

GITHUB = "https://github.com"
VARIABLES: dict[Kind, str] = {
    "github": "GITHUB_TOKEN",
    "gitlab": "GITLAB_TOKEN",
    "gitea": "GITEA_TOKEN",
}
"""The usual variables of tokens."""
PUBLIC: dict[str, Kind] = {GITHUB: "github", "https://gitlab.com": "gitlab"}
"""Forges whose tokens have these variables, whatever the forge of the environment is."""

_KNOWN: dict[str, Kind] = {"gitea.com": "gitea", "codeberg.org": "gitea"}
_APIS: dict[Kind, str] = {"github": "/api/v3", "gitlab": "/api/v4", "gitea": "/api/v1"}
_FORGES: dict[Kind, type[GitHub] | type[GitLab]] = {
    "github": GitHub,
    "gitlab": GitLab,
    "gitea": Gitea,
}


def find_kind(web: str, api: str | None = None) -> Kind:
    """Return which forge is at an address, by its declared API or its host, or else by asking it.

    Raises:
        InfrastructureError: it does not answer.
    """
    if api:
        return next((kind for kind, path in _APIS.items() if api.endswith(path)), "github")
    return PUBLIC.get(web) or _KNOWN.get(urlsplit(web).hostname or "") or _ask(web)


@cache
def _ask(web: str) -> Kind:
    """Return which forge answers for its version. GitHub Enterprise need not."""
    kinds: tuple[Kind, ...] = ("gitea", "gitlab")
    rest = Rest(web, {})
    for kind in kinds:
        answer = rest.ask("GET", f"{_APIS[kind]}/version")
        if answer.is_server_error:
            rest.check(answer, "the question for its version")
        try:
            data = answer.json()
        except ValueError:
            continue
        # Some answer to users only.
        named = "version" if answer.status_code == 200 else "message"
        if answer.status_code in (200, 401, 403) and isinstance(data, dict) and named in data:
            return kind
    return "github"


def find_api(web: str) -> str:
    """Return the address of the REST API of a forge."""
    return "https://api.github.com" if web == GITHUB else f"{web}{_APIS[find_kind(web)]}"


def connect(source: RepositorySource, kind: Kind, api: str, token: str) -> Forge:
    """Return a repository on its forge."""
    return _FORGES[kind](source, api, token)
