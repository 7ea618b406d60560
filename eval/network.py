"""Detection of failed network access in a test log.

Installers and clients print these lines when no name can be resolved or no host reached. Such a
line may explain a failure but proves nothing, since most eval scripts install packages that are
installed already.
"""

import re

_FAILURES = re.compile(
    "|".join(
        (
            # Messages of the C library, which Python, Ruby, PHP, apt, wget and others pass on.
            r"Temporary failure (?:in name resolution|resolving)",
            r"Name or service not known",
            r"Name does not resolve",
            r"getaddrinfo (?:EAI_AGAIN|ENOTFOUND|failed)",
            r"\b(?:ENETUNREACH|EAI_AGAIN)\b",
            r"Network is unreachable",
            r"No route to host",
            # pip and conda. Without retries, pip reports only that it found no version.
            r"Failed to establish a new connection",
            r"\bNameResolutionError\b",
            r"\(from versions: none\)",
            r"\bCondaHTTPError\b",
            # git, curl, cargo, composer. ssh has its own variant.
            r"[Cc]ould(?: not|n't) resolve (?:host|proxy)",
            r"unable to resolve host",
            r"spurious network error",
            # uv, Go, Maven and Gradle, yarn, Bundler.
            r"dns error: failed to lookup address",
            r"\bdial tcp: lookup \S+",
            r"\bdial tcp \S+: connect: network is unreachable",
            r"\bUnknownHostException\b|: Unknown host \S",
            r"trouble with your network connection",
            r"Network error while fetching|Could not reach host",
        )
    )
)
_SHOWN_CHARACTERS = 160


# pip's lines about one package. Most logs of a container without network have such lines.
_OF_PIP = re.compile(r"\(from versions: none\)|WARNING: Retrying \(Retry\(")


def failure(log: str, *, of_pip: bool = True) -> str:
    """Return the first line of a log that shows a network failure, shortened, or `""`.

    Without `of_pip`, lines of pip do not count.
    """
    for match in _FAILURES.finditer(log):
        begin = log.rfind("\n", 0, match.start()) + 1
        end = log.find("\n", match.end())
        whole = log[begin : end if end >= 0 else None]
        if of_pip or _OF_PIP.search(whole) is None:
            line = " ".join(whole.split())
            is_short = len(line) <= _SHOWN_CHARACTERS
            return line if is_short else " ".join(match[0].split())[:_SHOWN_CHARACTERS]
    return ""
