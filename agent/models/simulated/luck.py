"""Seeded draws: nothing that happens elsewhere, or earlier, changes them."""

import hashlib
import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Luck:
    """The draws of one attempt at one task."""

    identity: str
    """The seeds and the task."""

    def rng(self, purpose: str) -> random.Random:
        """A fresh generator that depends on the identity and the purpose alone."""
        whole = f"{self.identity}/{purpose}".encode("utf-8", "surrogateescape")
        return random.Random(hashlib.sha256(whole).digest())  # noqa: S311  a seeded draw, not a secret

    def hits(self, chance: float, purpose: str) -> bool:
        """Whether something of that chance happens."""
        return self.rng(purpose).random() < chance
