"""Meaning of rows of `attempts`, also of those that earlier releases wrote."""

from flows.storage.lake import Row

_DETAIL_OF_0_1 = "preflight failed"


def is_refused(row: Row) -> bool:
    """Return True if the attempt never began because the image of its instance is unfit.

    Release 0.1 recorded such an attempt as `infrastructure`, with a detail of its own.
    """
    if row["outcome"] == "infrastructure":
        return bool(row["detail"].startswith(_DETAIL_OF_0_1))
    return bool(row["outcome"] == "refused")


def was_run(row: Row) -> bool:
    """Return False for imports and for refused attempts; no journal has them."""
    return row["environment"] != "imported" and not is_refused(row)
