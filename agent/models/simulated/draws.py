"""Seeded draws. Nothing that happens elsewhere or earlier changes them."""

import hashlib
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Draws:
    """The draws of one attempt at one task."""

    identity: str
    """The seeds and the task."""

    def rng(self, purpose: str) -> random.Random:
        """Return a fresh generator that depends only on the identity and the purpose."""
        whole = f"{self.identity}/{purpose}".encode("utf-8", "surrogateescape")
        return random.Random(hashlib.sha256(whole).digest())  # noqa: S311  a seeded draw, not a secret

    def hits(self, chance: float, purpose: str) -> bool:
        """Return True with the given probability."""
        return self.rng(purpose).random() < chance
