"""Faults that strike a round. Each returns the number of calls that it may cost at most."""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import closing, suppress

import docker
import psutil

from agent.workspaces import ownership
from tests.disks import FragileDisk, SmallDisk
from tests.fire.ground import LEASE_S, PATIENCE_S, TIMEOUT_S, Disk, Ground
from tests.fire.models import LOSSES, REFUSALS
from tests.operation.running import below, kill_all, kill_below, start_worker

Fault = Callable[[Ground, random.Random], int]


def kill_commands(ground: Ground, chance: random.Random) -> int:
    """Kill a command with everything that it started."""
    command = chance.choice(ground.commands)
    kill_all(command)
    ground.commands.remove(command)
    return ground.concurrency


def kill_command_alone(ground: Ground, chance: random.Random) -> int:
    """Kill a command, and leave its children."""
    command = chance.choice(ground.commands)
    command.kill()
    command.wait()
    ground.commands.remove(command)
    return ground.concurrency


def stop_command(ground: Ground, chance: random.Random) -> int:
    """Ask a command to stop, as a service manager does."""
    chance.choice(ground.commands).send_signal(signal.SIGTERM)
    return 0


def interrupt_twice(ground: Ground, chance: random.Random) -> int:
    """Press Ctrl-C twice: the second time, calls in flight are given up."""
    command = chance.choice(ground.commands)
    command.send_signal(signal.SIGINT)
    time.sleep(chance.uniform(0, 0.5))
    if command.poll() is None:
        command.send_signal(signal.SIGINT)
    return ground.concurrency


def kill_child(ground: Ground, chance: random.Random) -> int:
    """Kill a child of a command: Prefect's server, git or an idle shell.

    A program that an agent or a test runs could also end itself. What it says then counts.
    """
    with suppress(psutil.Error):
        children = psutil.Process(chance.choice(ground.commands).pid).children()
        if idle := [child for child in children if not child.children()]:
            chance.choice(idle).kill()
    return 0


def pause_command(ground: Ground, chance: random.Random) -> int:
    """Pause a command for longer than its lease, while another one starts."""
    command = chance.choice(ground.commands)
    command.send_signal(signal.SIGSTOP)
    ground.processes += 1
    ground.start()
    time.sleep(LEASE_S + chance.uniform(0.5, 3))
    command.send_signal(signal.SIGCONT)
    ground.processes -= 1
    return ground.concurrency


def cut_network(ground: Ground, chance: random.Random) -> int:
    """Reset all connections to the model server, and refuse new ones for a moment."""
    ground.cable.cut()
    time.sleep(chance.uniform(0.1, 1.5))
    ground.cable.mend()
    return ground.concurrency


def silence_network(ground: Ground, chance: random.Random) -> int:
    """Lose all bytes for a moment, so that connections are half open."""
    ground.cable.silence()
    time.sleep(chance.uniform(0.1, 1.5))
    ground.cable.mend()
    return ground.concurrency


def duplicate_answers(ground: Ground, chance: random.Random) -> int:
    """Deliver each piece of an answer twice for a moment."""
    ground.cable.change = lambda data: 2 * data
    time.sleep(chance.uniform(0.1, 1.5))
    ground.cable.mend()
    return ground.concurrency


def cut_answers(ground: Ground, chance: random.Random) -> int:
    """Lose the last bytes of each answer for a moment. The connections stay open."""
    missing = chance.randint(1, 40)
    ground.cable.change = lambda data: data[:-missing]
    time.sleep(chance.uniform(0.1, 1.5))
    ground.cable.mend()
    return ground.concurrency


def reorder_answers(ground: Ground, chance: random.Random) -> int:
    """Let calls that are sent later be answered first, for a moment."""
    before, late = ground.model.latency_s, chance.uniform(1.0, 2.0)
    for latency_s in (late, late / 2, before):
        ground.model.latency_s = latency_s
        time.sleep(before)
    return 0


def delay_answers(ground: Ground, chance: random.Random) -> int:
    """Answer slowly for a moment, some calls later than their time limit."""
    before, ground.model.latency_s = (
        ground.model.latency_s,
        TIMEOUT_S * chance.choice([0.3, 1.5]),
    )
    time.sleep(1.5)
    ground.model.latency_s = before
    return ground.concurrency


def refuse_calls(ground: Ground, chance: random.Random) -> int:
    """Refuse the next calls, which costs nothing."""
    ground.model.faults += chance.choices([*REFUSALS], k=chance.randint(1, 3))
    return 0


def lose_answers(ground: Ground, chance: random.Random) -> int:
    """Lose or damage the next answers, which are charged."""
    lost = chance.choices([*LOSSES], k=chance.randint(1, 2))
    ground.model.faults += lost
    return len(lost)


def move_clock(ground: Ground, chance: random.Random) -> int:
    """Kill a command, and start the next one with a clock that is an hour off."""
    ground.clock_s = chance.choice([-3600, 3600])
    return kill_commands(ground, chance)


def set_clock(ground: Ground, chance: random.Random) -> int:
    """Set the clock of a running command by an hour, so that it differs from others."""
    ground.set_clock(chance.choice(ground.commands), chance.choice([-3600, 3600]))
    return ground.concurrency


def restart_database(ground: Ground, chance: random.Random) -> int:
    """Crash the database, and start it again."""
    assert ground.postgres
    ground.postgres.restart(away_s=chance.uniform(0, 1), mode="immediate")
    return ground.concurrency


def fill_wal_with_noise(ground: Ground, chance: random.Random) -> int:
    """Kill all commands, and append half a page of noise to the log of the journal."""
    cost = sum(kill_commands(ground, chance) for _ in list(ground.commands))
    wal = ground.lake / "journal.sqlite-wal"
    if wal.exists():
        with wal.open("ab") as file:
            file.write(chance.randbytes(2048))
    return cost


def damage_a_table(ground: Ground, chance: random.Random) -> int:
    """Kill all commands, truncate a table of the lake, and move it away as the error says."""
    cost = sum(kill_commands(ground, chance) for _ in list(ground.commands))
    tables = sorted(ground.lake.rglob("*.parquet"))
    if tables:
        table = chance.choice(tables)
        os.truncate(table, chance.randrange(table.stat().st_size))
        ground.start()
        while not (has_finished := ground.collect()) and ground.commands:
            time.sleep(0.1)
        if not has_finished:  # a run that has written the table anew reports no error
            table.unlink(missing_ok=True)
    return cost


def fill_disk(ground: Ground, chance: random.Random) -> int:
    """Fill the disk of the lake for a moment. An answer that cannot be recorded is lost."""
    assert isinstance(ground.disk, SmallDisk)
    ground.disk.fill()
    time.sleep(chance.uniform(0.2, 3))
    ground.disk.free()
    return ground.concurrency


def break_disk(ground: Ground, chance: random.Random) -> int:
    """Break the disk of the lake until every command has ended. What it had not written is lost."""
    assert isinstance(ground.disk, FragileDisk)
    cost = ground.concurrency * len(ground.commands)
    ground.disk.break_()
    deadline = time.monotonic() + PATIENCE_S
    while ground.commands and not ground.collect():
        if time.monotonic() > deadline:
            raise TimeoutError(f"a command goes on {PATIENCE_S:.0f} s after its disk broke")
        time.sleep(0.1)
    ground.disk.repair()
    return cost


def kill_container(ground: Ground, chance: random.Random) -> int:
    """Kill a container of the round."""
    assert ground.docker
    with (
        closing(ground.docker.client()) as client,
        suppress(docker.errors.APIError),
    ):  # it has just ended
        if own := client.containers.list(filters={"label": ownership.ATTEMPT}, ignore_removed=True):
            chance.choice(own).kill()
    return 0


def kill_docker(ground: Ground, chance: random.Random) -> int:
    """Kill the Docker daemon, and start it again, which ends all containers."""
    assert ground.docker
    ground.docker.kill()
    time.sleep(chance.uniform(0, 2))
    ground.docker.start()
    return 0


def kill_below_worker(ground: Ground, chance: random.Random) -> int:
    """Kill all shards of a worker."""
    kill_below(chance.choice(ground.workers))
    return ground.concurrency


def pause_below_worker(ground: Ground, chance: random.Random) -> int:
    """Pause all shards of a worker for longer than their leases."""
    paused = [psutil.Process(pid) for pid in below(chance.choice(ground.workers).pid)]
    for act in (psutil.Process.suspend, psutil.Process.resume):
        for process in paused:
            with suppress(psutil.NoSuchProcess):
                act(process)
        if act is psutil.Process.suspend:
            time.sleep(LEASE_S + chance.uniform(0.5, 3))
    return ground.concurrency


def replace_worker(ground: Ground, chance: random.Random) -> int:
    """Kill a worker with its shards, and start another."""
    assert ground.prefect
    worker = chance.choice(ground.workers)
    kill_all(worker)
    ground.workers.remove(worker)
    ground.workers.append(start_worker(ground.prefect))
    return ground.concurrency


def kill_server(ground: Ground, chance: random.Random) -> int:
    """Kill the Prefect server, and start it again."""
    assert ground.server
    ground.server.stop(signal.SIGKILL)
    ground.server.start()
    return 0


_ANYWHERE: list[Fault] = [
    *(cut_network, silence_network, duplicate_answers, cut_answers, reorder_answers),
    *(delay_answers, refuse_calls, lose_answers),
]
_LOCAL: list[Fault] = [
    kill_commands,
    kill_command_alone,
    stop_command,
    interrupt_twice,
    kill_child,
    pause_command,
]
_OF_WORKERS: list[Fault] = [kill_below_worker, pause_below_worker, replace_worker, kill_server]


def list_faults(
    *, kind: str, place: str, database: str, is_distributed: bool, has_clock: bool, disk: Disk
) -> dict[str, Fault]:
    """Return the faults that can strike such a round, by name."""
    faults = [*_ANYWHERE, *(_OF_WORKERS if is_distributed else _LOCAL)]
    if kind == "run" and not is_distributed:
        faults.append(damage_a_table)
    if kind == "chat":
        faults.remove(interrupt_twice)  # it ends a turn, which changes the conversation
        faults.remove(pause_command)  # another one would be a second person who talks
    if has_clock:
        faults += [move_clock, set_clock]
    if place == "docker":
        faults += [kill_container, kill_docker]
    faults += {"small": [fill_disk], "fragile": [break_disk], "": []}[disk]
    faults.append(restart_database if database == "postgres" else fill_wal_with_noise)
    return {fault.__name__: fault for fault in faults}
