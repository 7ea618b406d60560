"""The resources of containers: conditions of an experiment, equal for all of its arms."""

import asyncio
import re
from collections.abc import Iterable
from typing import Any, Self

from pydantic import Field, ValidationError

from agent.errors import InfrastructureError
from agent.workspaces import Environment, ResourceLimits
from agent.workspaces.docker_daemon import machine
from agent.workspaces.limits import GB
from eval.types import Instance
from flows.display.errors import UsageError
from flows.experiments.arms import Declared
from flows.storage.lake import Row


class Resources(Declared):
    """Limits of each container. `null` takes the limit of the instance's row, else a default."""

    memory_gb: float | None = Field(
        default=None,
        ge=1 / 64,
        le=2**20,
        description="gigabytes of 2^30 bytes, without swap; default 4",
    )
    cpus: float | None = Field(
        default=None, ge=0.01, le=4096, description="processors, as a share of time; default 2"
    )
    pids: int | None = Field(
        default=None, ge=16, le=2**22, description="processes and threads; default 1024"
    )
    disk_gb: float | None = Field(
        default=None,
        gt=0,
        le=2**20,
        description="gigabytes of 2^30 bytes of files that are written or changed; default 20",
    )

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Parse the option of a command, such as `memory_gb=16,pids=4096`.

        Raises:
            UsageError: a name or a value cannot be used.
        """
        values: dict[str, str] = {}
        for part in re.split(r"[,\s]+", text or ""):
            name, _, value = part.partition("=")
            values |= {name: value} if part else {}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"]))
            raise UsageError(
                f"--resources {text}: {where}: {problem['msg']}; known are "
                f"{', '.join(cls.model_fields)}, as in memory_gb=16,pids=4096"
            ) from None

    def of(self, instance: Instance) -> ResourceLimits:
        """Return the limits of the containers of an instance."""
        limits = {**_demand(instance), **self.model_dump(exclude_none=True)}
        for size in ("memory", "disk"):
            if f"{size}_gb" in limits:
                limits[f"{size}_bytes"] = round(limits.pop(f"{size}_gb") * GB)
        return ResourceLimits(**limits)


UNKNOWN: Row = dict.fromkeys(Resources.model_fields)
"""Columns of attempts and evaluations on a host, where nothing is limited, and of imports."""


def columns(limits: ResourceLimits | None) -> Row:
    """Return the columns of an attempt or evaluation in containers with these limits."""
    if limits is None:
        return UNKNOWN
    return {
        "memory_gb": round(limits.memory_bytes / GB, 6),
        "cpus": float(limits.cpus),
        "pids": limits.pids,
        "disk_gb": round(limits.disk_bytes / GB, 6),
    }


def in_key(limits: ResourceLimits | None) -> Row:
    """Return the values that are part of a key, because they differ from the default.

    Verdicts of earlier releases were given under the default, and remain valid.
    """
    if limits is None:
        return {}
    default = columns(ResourceLimits())
    return {name: value for name, value in columns(limits).items() if value != default[name]}


async def refuse_excess(
    resources: Resources, instances: Iterable[Instance], environment: Environment
) -> None:
    """Refuse what this machine does not have, and any limits on the host.

    Raises:
        UsageError: a limit that is declared, or that a row asks for, cannot be given.
    """
    declared = resources.model_dump(exclude_none=True)
    if environment == "host":
        if declared:
            raise UsageError(
                f"resources ({', '.join(declared)}) are limits of containers, and there are none "
                "on the host: remove them, or start Docker and use `environment: docker`"
            )
        return
    wanted = [("resources", declared)] if declared else []
    for instance in instances:
        demand = _demand(instance)
        if demand.keys() - declared.keys():
            undeclared = {name: demand[name] for name in demand if name not in declared}
            wanted.append((instance.instance_id, undeclared))
    if not wanted:
        return
    try:
        capacity = await asyncio.to_thread(machine)
    except InfrastructureError as error:
        raise UsageError(str(error)) from error
    for source, values in wanted:
        for name, value in values.items():
            if name in capacity and value > capacity[name]:
                raise UsageError(
                    f"{source} asks for {name}: {value:.10g}, and Docker's machine has "
                    f"{capacity[name]:.4g}: use a larger machine, or declare "
                    f"`resources: {{{name}: …}}`"
                )


def _demand(instance: Instance) -> dict[str, Any]:
    """Return the limits that the row of an instance asks for."""
    return {name: value for name, value in vars(instance.demand).items() if value is not None}
