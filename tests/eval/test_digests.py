"""Digests are parts of stored keys, so a value has the same digest in every release."""

from datetime import date

from eval.digests import canonical_digest

VALUE = {"b": [1, 2.5, None, True], "a": "ä", "day": date(2026, 3, 1)}


def test_values_of_release_0_1() -> None:
    """Digests equal the digests of release 0.1: SHA-256 of the text that `json.dumps` wrote."""
    assert canonical_digest(VALUE) == (
        "f155753a2be7685de1e7d2ce258d953970858c939c5c955184295c7eb7ef94e5"
    )
    assert canonical_digest(VALUE, compact=True) == (
        "167747d245aed6f817450dda8518caea3778f6a5e6a00973f902bf74d514f068"
    )


def test_the_order_of_names_does_not_count() -> None:
    """The order of a dictionary's keys does not change the digest; the order of a list does."""
    assert canonical_digest(dict(reversed(VALUE.items()))) == canonical_digest(VALUE)
    assert canonical_digest([1, 2]) != canonical_digest([2, 1])
