"""The work that a benchmark gives to its shards."""

from dataclasses import dataclass

from eval.digests import canonical_digest
from flows.experiments.plan import Plan
from flows.storage.journals import Home


@dataclass(frozen=True)
class Order:
    """Work for the workers: the cells of a plan, and what every shard is given."""

    plan: Plan
    lake: str | None
    """The argument of the benchmark. Workers may have a different default."""
    home: Home
    """Workers with another lake or journal refuse the shards."""
    grade: bool

    @property
    def tags(self) -> list[str]:
        """The tags of the shards. Only shards of an equal order have all of them."""
        home, declared = self.home, self.plan.experiment
        parts = [declared.model_dump(mode="json"), self.lake, home.lake_id, home.journal_id]
        digest = canonical_digest([*parts, self.grade])[:16]
        return ["durabench", f"experiment:{declared.name}", f"order:{digest}"]
