"""One round: work drawn from a seed, its faults, and what must be true afterwards."""

import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from eval.images import build
from eval.instances import load, task_repo
from tests.fire.faults import Fault, list_faults
from tests.fire.ground import PATIENCE_S, Cell, Disk, Ground, Result
from tests.fire.works import WORKS
from tests.servers.docker_daemon import DockerDaemon
from tests.servers.postgres import PostgresServer
from tests.servers.prefect_server import PrefectServer

ARMS = ("mini", "mini_retry", "loop", "durable")
INSTANCES = 6
CONCURRENCY = 3
MAX_BURST = 4
"""Maximum number of faults without a charged call between them."""

_GOOD_ERROR = re.compile(r"^durabench: .+", re.MULTILINE)
_ENDS = (0, 130, 143, -signal.SIGTERM)
"""Exit codes without a line. A signal may arrive while Python starts."""


@dataclass(frozen=True)
class Services:
    """What rounds can use here."""

    postgres: PostgresServer | None
    prefect: PrefectServer | None
    docker: DockerDaemon | None
    """A daemon of its own, which a fault can kill. It starts when a round needs it."""
    can_mount: bool
    """Whether this user can mount a small disk."""
    has_clock: bool
    """Whether commands can have other clocks."""

    def open_docker(self) -> DockerDaemon:
        """Return the daemon with the images of all instances."""
        assert self.docker
        if not self.docker.runs:
            instances, repo = load("bundled")[:INSTANCES], task_repo("bundled")
            assert repo
            list(build(instances, repo))
            self.docker.start()
            self.docker.load(*(instance.image for instance in instances))
        return self.docker


@dataclass(frozen=True)
class Round:
    """An experiment and its faults. The same seed on the same services is the same round."""

    seed: int
    kind: str
    """What its commands do: a name in `WORKS`."""
    arms: tuple[str, ...]
    instances: int
    processes: int
    place: str
    database: str
    is_distributed: bool
    has_clock: bool
    """Whether its commands have clocks that can be set."""
    disk: Disk
    budget_share: float | None
    """Budget as a share of the cost without faults."""
    faults: tuple[str, ...]

    @classmethod
    def draw(cls, seed: int, services: Services) -> "Round":
        """Return the round of a seed."""
        chance = random.Random(seed)
        kind = chance.choice([*["run"] * 6, "job", *WORKS])
        is_run = kind == "run"
        is_distributed = is_run and services.prefect is not None and chance.random() < 0.15
        has_postgres = services.postgres is not None and chance.random() < 0.5
        place = "docker" if services.docker and chance.random() < 0.3 else "host"
        place = "host" if is_distributed or not is_run else place
        database = "postgres" if has_postgres or is_distributed else "sqlite"
        disks: list[Disk] = ["", "", "", "small", "fragile"]
        has_disk = services.can_mount and not is_distributed
        disk: Disk = chance.choice(disks) if has_disk else ""
        drawn = cls(
            seed,
            kind=kind,
            arms=WORKS[kind].arms or tuple(chance.sample(ARMS, chance.randint(1, 2))),
            instances=chance.randint(3, INSTANCES) if is_run else 1,
            processes=1 if is_distributed or not is_run else chance.choice([1, 1, 2, 3]),
            place=place,
            database=database,
            is_distributed=is_distributed,
            has_clock=services.has_clock and not is_distributed and chance.random() < 0.4,
            disk=disk,
            budget_share=chance.choice([None, None, None, 0.5]) if is_run else None,
            faults=(),
        )
        names = [*drawn.list_faults()]
        faults = chance.choices(names, k=chance.randint(24, 40))
        # A damaged table is noticed by the report, at the end.
        faults.sort(key=lambda name: name == "damage_a_table")
        return replace(drawn, faults=tuple(faults))

    def list_faults(self) -> dict[str, Fault]:
        """Return the faults that can strike this round, by name."""
        return list_faults(
            kind=self.kind,
            place=self.place,
            database=self.database,
            is_distributed=self.is_distributed,
            has_clock=self.has_clock,
            disk=self.disk,
        )

    def declare(self) -> dict[str, Any]:
        """Return the experiment without its models."""
        return {
            "dataset": "bundled",
            "environment": self.place,
            "execution": "distributed" if self.is_distributed else "local",
            "select": {"ids": [each.instance_id for each in load("bundled")[: self.instances]]},
            "concurrency": CONCURRENCY,
            "evaluation_timeout_s": 120,
            "arms": list(self.arms),
        }


@dataclass
class Outcome:
    """What a round has shown."""

    struck: list[str] = field(default_factory=list)
    calls: int = 0
    """Charged calls."""
    repeated: int = 0
    allowed: int = 0
    """Calls that the faults may have cost at most."""
    recoveries_s: dict[str, list[float]] = field(default_factory=dict)
    """Time from each fault to the next charged call, by fault."""
    violations: list[str] = field(default_factory=list)
    script: str = ""
    """The command that repeats the violation with the fewest faults."""


@dataclass(frozen=True)
class Reference:
    """The same work without faults."""

    results: dict[Cell, Result]
    asked: Counter[str]
    """Charged calls by arm."""


def measure_reference(folder: Path, kind: str, place: str, services: Services) -> Reference:
    """Return all that a round of this kind can have, without faults."""
    work = WORKS[kind]()
    instances = INSTANCES if kind == "run" else 1
    arms = work.arms or ARMS
    plain = Round(0, kind, arms, instances, 1, place, "sqlite", False, False, "", None, ())
    docker = services.open_docker() if place == "docker" else None
    with Ground(folder, plain.declare(), work, docker=docker, latency_s=0.0) as ground:
        _finish(ground)
        assert [code for code, _ in ground.ended] == [0], ground.ended
        assert not (problems := ground.list_problems()), problems
        return Reference(ground.read_results(), ground.asked)


def run(round_: Round, folder: Path, services: Services, reference: Reference) -> Outcome:
    """Run a round and check it."""
    declared = round_.declare()
    wanted = _select(reference, declared) if round_.kind == "run" else reference
    cost_usd = sum(result[4] for result in wanted.results.values())
    if round_.budget_share:
        declared["budgets"] = {"experiment": {"usd": round(cost_usd * round_.budget_share, 6)}}
    ground = Ground(
        folder,
        declared,
        WORKS[round_.kind](),
        processes=round_.processes,
        postgres=services.postgres if round_.database == "postgres" else None,
        prefect=services.prefect if round_.is_distributed else None,
        docker=services.open_docker() if round_.place == "docker" else None,
        has_clock=round_.has_clock,
        disk=round_.disk,
    )
    outcome = Outcome()
    with ground:
        try:
            _strike(round_, ground, outcome)
            _finish(ground)
        except TimeoutError as error:
            outcome.violations.append(str(error))
            return outcome
        outcome.calls = ground.asked.total()
        outcome.violations += _check(round_, ground, wanted, outcome)
    return outcome


def shrink(round_: Round, fails: Callable[["Round"], bool]) -> Round:
    """Return a round with few faults that still fails: leave out a half, a quarter and so on."""
    size = len(round_.faults) // 2
    while size:
        for start in reversed(range(0, len(round_.faults), size)):
            faults = round_.faults[:start] + round_.faults[start + size :]
            if fails(fewer := replace(round_, faults=faults)):
                round_ = fewer
        size //= 2
    return round_


def _select(reference: Reference, declared: dict[str, Any]) -> Reference:
    """Return the part of an experiment."""
    arms, ids = declared["arms"], declared["select"]["ids"]
    results = {
        cell: result
        for cell, result in reference.results.items()
        if cell[1] in arms and cell[2] in ids
    }
    asked = sum((Counter({cell[1]: result[1]}) for cell, result in results.items()), Counter())
    return Reference(results, asked)


def _strike(round_: Round, ground: Ground, outcome: Outcome) -> None:
    chance = random.Random(f"{round_.seed} strikes")
    faults = round_.list_faults()
    if not _wait_for_calls(ground, 1):
        return
    left = [*round_.faults]
    while left:
        burst = [left.pop(0) for _ in range(min(len(left), chance.randint(1, MAX_BURST)))]
        if not _wait_for_calls(ground, chance.randint(0, 2)):
            return
        struck_at = []
        for name in burst:
            time.sleep(chance.uniform(0, 0.4))
            if ground.collect():
                return
            ground.start()
            outcome.allowed += faults[name](ground, chance)
            outcome.struck.append(name)
            struck_at.append((name, time.monotonic()))
        if not _wait_for_calls(ground, 1):
            return
        called_at = time.monotonic()
        for name, since in struck_at:
            outcome.recoveries_s.setdefault(name, []).append(called_at - since)


def _wait_for_calls(ground: Ground, calls: int) -> bool:
    """Wait for charged calls, and keep commands running. Return False if the experiment ended."""
    before, deadline = ground.asked.total(), time.monotonic() + PATIENCE_S
    while ground.asked.total() < before + calls:
        if ground.collect():
            return False
        ground.start()
        if time.monotonic() > deadline:
            last = ground.ended[-1][1][-300:] if ground.ended else "nothing"
            raise TimeoutError(f"no call within {PATIENCE_S:.0f} s; the last command said: {last}")
        time.sleep(0.02)
    return True


def _finish(ground: Ground) -> None:
    """Run commands until one has finished, and wait for the others."""
    ground.clock_s = 0
    deadline = time.monotonic() + 2 * PATIENCE_S
    while not ground.collect():
        ground.start()
        if time.monotonic() > deadline:
            raise TimeoutError(f"no end within {2 * PATIENCE_S:.0f} s")
        time.sleep(0.05)
    while ground.commands:
        if time.monotonic() > deadline:
            raise TimeoutError("a command goes on after another has finished the experiment")
        ground.collect()
        time.sleep(0.05)


def _check(round_: Round, ground: Ground, reference: Reference, outcome: Outcome) -> list[str]:
    """Return what is wrong, a line each."""
    found, wanted, needed = ground.list_problems(), reference.results, reference.asked
    journal = ground.open_journal()
    accounts = [journal.account(one.attempt_id) for one in journal.find("")]
    billed_usd = sum(account.billed_usd or 0.0 for account in accounts)
    billed, asked = sum(account.calls_billed for account in accounts), ground.asked
    results = ground.read_results()
    if round_.budget_share:
        budget_usd = sum(result[4] for result in wanted.values()) * round_.budget_share
        if ground.model.charged_usd > budget_usd + 1e-6:
            found.append(f"charged ${ground.model.charged_usd:.6f} of ${budget_usd:.6f}")
        wanted = {cell: wanted[cell] for cell, r in results.items() if r[0] != "budget_stop"}
        results = {cell: result for cell, result in results.items() if cell in wanted}
    elif results.keys() != wanted.keys():
        found.append(f"cells {sorted(results)} instead of {sorted(wanted)}")
    for cell in sorted(results.keys() & wanted.keys()):
        # The last bytes of a streamed answer are its figures, which are unknown without them.
        has_figures = results[cell][2] is not None or "cut_answers" not in outcome.struck
        if _round(results[cell], has_figures) != _round(wanted[cell], has_figures):
            found.append(f"{cell} has {results[cell]}, and without faults {wanted[cell]}")
    if not round_.budget_share:
        outcome.repeated = asked.total() - needed.total()
        if any(asked[arm] < needed[arm] for arm in needed):
            found.append(f"charged calls {dict(asked)}, fewer than {dict(needed)}")
        if outcome.repeated > outcome.allowed:
            found.append(f"{outcome.repeated} calls were repeated; {outcome.allowed} are allowed")
    if billed < asked.total():
        found.append(f"the ledger has {billed} calls, and the server charged {asked.total()}")
    if ground.model.charged_usd > billed_usd + 1e-6:
        found.append(f"the ledger has ${billed_usd:.6f} of ${ground.model.charged_usd:.6f}")
    found += ground.list_leftovers()
    for code, output in ground.ended:
        is_named = code in _ENDS or _GOOD_ERROR.search(output)
        if "Traceback" in output or not is_named:
            found.append(f"an error of exit code {code} is not one line: {output[-300:]}")
    return found


def _round(result: Result, has_figures: bool) -> Result:
    """Return a result with rounded figures, or without tokens and cost."""
    values = result if has_figures else (*result[:2], *result[5:])
    return tuple(round(value, 9) if isinstance(value, float) else value for value in values)
