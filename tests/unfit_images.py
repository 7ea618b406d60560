"""A dataset with an image that fails the preflight, and layers that make images unfit."""

import io
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from docker import DockerClient

from eval import instances

FIT, UNFIT = instances.load("bundled")[:2]

_NOTES = """\
diff --git a/NOTES.txt b/NOTES.txt
new file mode 100644
--- /dev/null
+++ b/NOTES.txt
@@ -0,0 +1 @@
+Nothing is repaired by this.
"""


def write_dataset(folder: Path) -> str:
    """Write the two rows, the second with a reference patch that resolves nothing.

    Return the path.
    """
    rows = [FIT.row, {**UNFIT.row, "patch": _NOTES}]
    path = folder / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row, default=str)}\n" for row in rows))
    return str(path)


_USER = "RUN useradd -m agent && {}\nUSER agent\n"
_OLD_GIT = r"RUN printf '#!/bin/sh\necho git version 2.11.0\n' >/usr/bin/git"

UNFIT_LAYERS = {
    "no git": ("RUN rm /usr/bin/git", "no git on PATH"),
    "old git": (_OLD_GIT, "its git is 2.11: install 2.20"),
    "no bash": ("RUN rm -f /bin/bash /usr/bin/bash", "cannot run bash"),
    "no sh": ("RUN rm -f /bin/sh /usr/bin/sh", "none of its containers can start"),
    "no sleep": ("RUN rm -f /bin/sleep /usr/bin/sleep", "bash and sleep"),
    "no PATH": ("ENV PATH=", "none of its containers can start"),
    "no repository": ("RUN rm -rf /testbed/.git", "/testbed is not a git repository"),
    "no base commit": ("RUN git tag -d base", "has no commit base"),
    "no such user": ("USER nobody-here", "unable to find user nobody-here"),
    "tree of root": (_USER.format("true"), "user agent may not write /testbed"),
    "files of root": (
        _USER.format("chown agent /testbed && chown -R agent /testbed/.git"),
        "user agent may not write /testbed/a.txt",
    ),
    "closed tree": (_USER.format("chmod 700 /testbed"), "cannot enter the folder /testbed"),
    "read-only git": (
        _USER.format("chown -R agent /testbed && chmod -R a-w /testbed/.git"),
        "user agent may not write /testbed/.git",
    ),
    "no room": (
        _USER.format("chown -R agent /testbed && chmod 755 /var/tmp"),
        "user agent may not make the folder /var/tmp",
    ),
}
"""Layers of a Dockerfile that make an image unfit for a workspace, each with the reason."""

OF_USERS = {
    "its own tree": _USER.format("chown -R agent /testbed"),
    "no home": "RUN useradd -M -d /none agent && chown -R agent /testbed\nUSER agent\n",
    "a number": "RUN chown -R 4242 /testbed\nUSER 4242\n",
    "root in a tree of a user": "RUN chown -R 4242 /testbed",
    "an entry point that ends": 'ENTRYPOINT ["/bin/false"]',
    "no working folder": "WORKDIR /gone\nRUN rm -r /gone",
}
"""Layers of images that work, of several users."""


@contextmanager
def layered(image: str, layer: str, client: DockerClient) -> Iterator[str]:
    """Build an image with one more layer, and remove it at the end."""
    tag = f"durabench-test/{secrets.token_hex(4)}:layer"
    dockerfile = io.BytesIO(f"FROM {image}\n{layer}\n".encode())
    client.images.build(fileobj=dockerfile, tag=tag, rm=True, network_mode="none")
    yield tag
    client.images.remove(tag, force=True)
