"""Archives of files that tests unpack."""

import tarfile
from pathlib import Path


def unpack(archive: Path, folder: Path, *prefixes: str) -> None:
    """Unpack an archive, or only its members whose names begin with one of these prefixes."""
    with tarfile.open(archive) as packed:
        members = [each for each in packed if each.name.startswith(prefixes or ("",))]
        if hasattr(tarfile, "data_filter"):
            packed.extractall(folder, members, filter="data")
        else:  # Python before 3.11.4
            packed.extractall(folder, members)
