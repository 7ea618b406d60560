"""Archives of files that tests unpack."""

import os
import tarfile
from pathlib import Path


def unpack(archive: Path, folder: Path, *prefixes: str) -> None:
    """Unpack an archive, or only its members whose names begin with one of these prefixes.

    The files belong to this user.
    """
    with tarfile.open(archive) as packed:
        members = [each for each in packed if each.name.startswith(prefixes or ("",))]
        if hasattr(tarfile, "data_filter"):
            packed.extractall(folder, members, filter="data")
            return
        for each in members:  # Python before 3.11.4 has no filters
            each.uid, each.gid, each.uname, each.gname = os.getuid(), os.getgid(), "", ""
        packed.extractall(folder, members)
