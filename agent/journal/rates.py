"""Rate limits over all workers, with one row per rate.

The generic cell rate algorithm (ITU-T I.371) is a token bucket kept as one time: a row holds the
time at which all admitted requests are paid off. A worker that dies has used its share and holds
nothing.
"""

from sqlalchemy import Connection, bindparam, case
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from agent.journal.database import clock
from agent.journal.tables import rates

_MORE = bindparam("more_s", type_=rates.c.free_at.type)
_FREE_AT = case((rates.c.free_at > clock(), rates.c.free_at), else_=clock()) + _MORE


def take_turn(connection: Connection, name: str, seconds: float, burst_s: float) -> float:
    """Acquire `seconds` of a rate. Return how many seconds to wait before using them.

    Unused capacity of up to `burst_s` may be used at once.
    """
    insert = sqlite_insert if connection.dialect.name == "sqlite" else postgresql_insert
    statement = (
        insert(rates)
        .values(name=name, free_at=clock() + _MORE)
        .on_conflict_do_update(index_elements=[rates.c.name], set_={"free_at": _FREE_AT})
        .returning((rates.c.free_at - clock()).label("ahead_s"))
    )
    ahead_s: float = connection.execute(statement, {"more_s": seconds}).scalar_one()
    return max(0.0, ahead_s - max(burst_s, seconds))
