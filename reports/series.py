"""The series that an experiment belongs to, and its night, both from its name.

`durabench run --fresh` and schedules append the time to the name: `smoke-20261128t040000` is the
run of the series `smoke` in the night of 2026-11-28.
"""

from __future__ import annotations

import re
from datetime import date, datetime

_TIME = re.compile(r"-(\d{8})t\d{6}$")


def series_of(experiment: str) -> str:
    """Return the name of the series that an experiment belongs to."""
    return _TIME.sub("", experiment)


def night_of(experiment: str) -> date | None:
    """Return the date in the name of an experiment, in UTC. None for a name without one."""
    time = _TIME.search(experiment)
    try:
        return datetime.strptime(time[1], "%Y%m%d").date() if time else None
    except ValueError:
        return None
