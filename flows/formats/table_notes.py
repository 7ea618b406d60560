"""Warnings about a table that was imported."""

from collections.abc import Iterator, Mapping

from flows.formats.table_files import Sheet
from reports.format import plural

_TOTALS = ("total_cost", "total_cost_usd", "cost_total")
"""Columns in which publishers repeat the cost of all rows of an arm."""

_DISAGREEMENT = """
select arm, sum(cost), max(total)
from (select rowid + 1 as position, number({total}) as total from rows)
join parsed on row = position
group by arm
having min(total) = max(total) and count(*) > 1 and abs(sum(cost) - max(total)) > 0.01 * max(total)
order by min(row)
"""


def describe_traps(sheet: Sheet, texts: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each trap in the tables `parsed` and `results` of a sheet.

    `texts` has the SQL of each column as text, by kind.
    """
    yield from _note_blanks(sheet, texts)
    yield from _note_endings(sheet)
    yield from _note_zeros(sheet)
    yield from _note_totals(sheet)


def _note_zeros(sheet: Sheet) -> Iterator[str]:
    """A cost of 0 is unknown, unless no call was made."""
    [number] = sheet.connection.execute(
        "select count(*) from results where cost = 0 and calls is distinct from 0 and attempt <> ''"
    ).fetchone() or (0,)
    if number:
        yield f"{_count_rows(number)} a cost of 0 and not 0 calls: the cost counts as unknown."


def _note_totals(sheet: Sheet) -> Iterator[str]:
    position = next((n for name in _TOTALS for n in sheet.find(name)), None)
    if position is None:
        return
    total = sheet.write_sql(position, is_name=False)
    differ = sheet.connection.execute(_DISAGREEMENT.format(total=total)).fetchall()
    if differ:
        arm, costs, stated = differ[0]
        yield (
            f"the costs of {plural(len(differ), 'arm')} do not add up to {sheet.names[position]}, "
            f"such as ${costs:,.2f} and ${stated:,.2f} of {arm!r}; the rows count."
        )


def _count_rows(number: int) -> str:
    return "1 row has" if number == 1 else f"{number} rows have"


def _note_blanks(sheet: Sheet, texts: Mapping[str, str]) -> Iterator[str]:
    counts = []
    for kind, what in (("instance", "instance id"), ("arm", "arm name")):
        if kind in texts:
            [number] = sheet.connection.execute(
                f"select count(*) from rows where {texts[kind]} <> bare({texts[kind]})"  # noqa: S608
            ).fetchone() or (0,)
            counts += [f"{number} {what}{'' if number == 1 else 's'}"] if number else []
    if counts:
        yield f"blanks were taken off the ends of {' and '.join(counts)}."


def _note_endings(sheet: Sheet) -> Iterator[str]:
    for ended, without, state in (
        ("attempt is null", "verdict, outcome or amount", "never run"),
        ("attempt = 'unknown' and graded is null", "verdict", "not graded"),
    ):
        [number] = sheet.connection.execute(
            f"select count(*) from results where {ended}"  # noqa: S608
        ).fetchone() or (0,)
        if number:
            verb = "counts" if number == 1 else "count"
            yield f"{_count_rows(number)} no {without}, and {verb} as {state}."
