"""The digest of a JSON value, for keys that are stored. No value may ever change."""

import hashlib
import json
from typing import Any


def canonical_digest(value: Any, *, compact: bool = False) -> str:
    """Return the SHA-256 of a value as JSON with sorted keys, and no spaces if `compact`.

    Values that JSON does not have, such as dates, count as their text.
    """
    separators = (",", ":") if compact else None
    text = json.dumps(value, sort_keys=True, separators=separators, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
