"""Relations created from the SQL files: lake views → `staging` → `marts`.

A file is one query, and its name is the relation's name. Reports, audits and notebooks read the
same relations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache, partial
from graphlib import TopologicalSorter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from reports.columns import SHARED_TABLES, TABLES
from reports.lake import SESSION, Names, naming_damage, open_lake, quote_literal
from reports.rendering.sections import AuditFailure
from reports.series import night_of, series_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from upath import UPath

Ran = TypeVar("Ran")

SQL = Path(__file__).parent / "sql"

STAGING = ("attempts", "decisions", "experiments", "evaluations", "predictions", "llm_calls")
"""In order of dependency."""

VIEWS = ("llm_calls", "counted_attempts", "counted_evaluations")
"""Relations that stay views. `llm_calls` is by far the longest table, and only one mart reads it.
The `counted_` ones are nearly a whole staging table. The others become tables, because every scan
of a lake reopens all of its many small files. `cells` is not sorted, which would take a tenth of
the time of a large report; costs are added with `fsum`, which depends on no order in practice, so
that arms of equal cost tie."""

FILES = {
    path.stem: path
    for folder in ("sql/marts", "questions/*")
    for path in sorted(SQL.parent.glob(f"{folder}/*.sql"))
}
"""The file of each mart. A mart of one question is in the folder of the question."""


def _order() -> Iterator[tuple[str, bool]]:
    """Yield each mart after its sources, and True if it is slow: it reads single calls or steps."""
    texts = {name: path.read_text(encoding="utf-8") for name, path in FILES.items()}
    reads = {name: {*re.findall(r"\bmarts\.(\w+)", text)} for name, text in texts.items()}
    slow: set[str] = set()
    for name in TopologicalSorter(reads).static_order():
        if re.search(r"staging\.llm_calls|main\.steps", texts[name]) or reads[name] & slow:
            slow.add(name)
        yield name, name in slow


_ORDER = tuple(sorted(_order(), key=lambda mart: (mart[1], FILES[mart[0]].parent.name != "marts")))

MARTS = tuple(name for name, _ in _ORDER)
"""All marts, in order of dependency: shared marts, marts of questions, and slow ones."""

SHARED = tuple(
    name for name, is_slow in _ORDER if FILES[name].parent.name == "marts" and not is_slow
)
"""The marts for the numbers of arms and pairs."""

_RELATIONS = {
    **{f"staging.{name}": SQL / "staging" / f"{name}.sql" for name in STAGING},
    **{f"marts.{name}": FILES[name] for name in MARTS},
}
"""The file of each relation, in order of dependency."""

LAKE = "lake"
"""Schema of the tables as they are in the lake."""

THREADS = 2
"""Number of relations that are created at a time, each by a part of the processors."""

AUDITS = tuple(sorted((SQL / "audits").glob("*.sql")))
"""The files of all audits, by name."""

AUDIT_EXAMPLES = 3
"""Number of rows of a failed audit that a report shows."""


class Making:
    """The relations of an experiment, which threads create while others are read already."""

    def __init__(
        self,
        connection: DuckDBPyConnection,
        marts: Sequence[str] = MARTS,
        audits: Sequence[Path] = (),
    ) -> None:
        """Begin to create these marts, with the relations that they read, then to run audits."""
        self.connection = connection
        connection.execute("create schema staging; create schema marts")
        # Relations share the processors: more threads than those wait for each other.
        [(threads,)] = connection.execute("select current_setting('threads')").fetchall()
        connection.execute(f"set threads = {max(1, threads // THREADS)}")
        self._threads = ThreadPoolExecutor(THREADS)
        self._futures: dict[str, Future[None]] = {}
        needed = _list_needed(marts, audits)
        for relation, path in _RELATIONS.items():
            if relation in needed:
                self._futures[relation] = self._submit(path, partial(_create, relation))
        self._audits = [self._submit(path, partial(_audit, path)) for path in audits]
        self._threads.shutdown(wait=False)  # they end when everything is made

    def _submit(self, path: Path, run: Callable[[DuckDBPyConnection, str], Ran]) -> Future[Ran]:
        """Run the query of a file after the relations that it names, which come before it."""
        query = path.read_text(encoding="utf-8")
        names = set(re.findall(r"\b(?:staging|marts)\.\w+", query))
        sources = [self._futures[name] for name in names if name in self._futures]
        cursor = self.connection.cursor()

        def wait_and_run() -> Ran:
            for source in sources:
                source.result()
            with cursor:
                return run(cursor.execute(SESSION), query)

        return self._threads.submit(wait_and_run)

    def wait(self, marts: Sequence[str] | None = None) -> None:
        """Wait until these marts exist, by default all relations."""
        names = self._futures if marts is None else [f"marts.{name}" for name in marts]
        for name in names:
            self._futures[name].result()

    def audits(self) -> tuple[AuditFailure, ...]:
        """Wait until all audits have run. Return the audits that found rows, by name."""
        return tuple(failure for audit in self._audits if (failure := audit.result()))

    def close(self) -> None:
        """Close the connection. Relations that are still waiting will not be created."""
        self._threads.shutdown(cancel_futures=True)
        self.connection.close()


def open_marts(
    lake: Path | UPath, experiments: Names, marts: Sequence[str] = MARTS
) -> DuckDBPyConnection:
    """Open a connection with these marts, and with the relations and tables that they read.

    The caller closes the connection. Raise ReportError as `reports.lake.open_lake` does.
    """
    with naming_damage(lake, experiments):
        making = Making(open_lake(lake, experiments, _list_needed(marts)), marts)
        try:
            making.wait()
        except BaseException:
            making.close()
            raise
        return making.connection


def _list_needed(marts: Sequence[str], audits: Sequence[Path] = ()) -> set[str]:
    """Return the names of these marts, and of all relations and tables that they read."""
    needed = {f"marts.{name}" for name in marts}.union(*map(_find_names, audits))
    for relation, path in reversed(_RELATIONS.items()):
        if relation in needed:
            needed |= _find_names(path)
    return needed


@cache
def _find_names(path: Path) -> set[str]:
    """Return the names of relations and tables in a file."""
    return set(re.findall(r"\b(?:main|staging|marts)\.\w+", path.read_text(encoding="utf-8")))


def write_relations(lake: Path | UPath, experiments: Sequence[str], output: Path) -> dict[str, int]:
    """Write the tables of the lake, `staging` and `marts` to a file. Return rows by relation.

    Each row states its experiment, the series and the night, except for tables of no experiment.
    The file appears whole or not at all, and replaces an earlier one. Raise ReportError as
    `reports.lake.open_lake` does, and OSError if the file cannot be written.
    """
    rows: Counter[str] = Counter()
    # In the folder of the file, because a rename works on one disk only.
    with TemporaryDirectory(dir=output.absolute().parent, prefix=".durabench-") as folder:
        file = Path(folder) / "exported.duckdb"
        for experiment in experiments:
            with naming_damage(lake, experiment):
                _add_relations(lake, experiment, file, rows)
        file.replace(output)
    return dict(rows)


def _add_relations(lake: Path | UPath, experiment: str, file: Path, rows: Counter[str]) -> None:
    """Add the relations of an experiment to a file, and their numbers of rows to `rows`."""
    relations = {f"{LAKE}.{name}": f"main.{name}" for name in TABLES}
    for schema, names in (("staging", STAGING), ("marts", MARTS)):
        relations |= {f"{schema}.{name}": f"{schema}.{name}" for name in names}
    night = night_of(experiment)
    origin = (
        f"{quote_literal(experiment)} as experiment, "
        f"{quote_literal(series_of(experiment))} as series, "
        f"cast({quote_literal(str(night)) if night else 'null'} as date) as night"
    )
    making = Making(open_lake(lake, experiment, at_once=True))
    try:
        making.wait()
        connection = making.connection
        connection.execute(f"attach {quote_literal(str(file))} as exported; start transaction")
        for schema in (LAKE, "staging", "marts"):
            connection.execute(f"create schema if not exists exported.{schema}")
        for relation, source in relations.items():
            query = f"select {origin}, columns(lambda name: name <> 'experiment') from {source}"  # noqa: S608
            _add_rows(connection, relation, query, rows)
        for name in SHARED_TABLES:
            if f"{LAKE}.{name}" not in rows:
                _add_rows(connection, f"{LAKE}.{name}", f"from main.{name}", rows)
        connection.execute("commit; detach exported")
    finally:
        making.close()


def read_rows(
    connection: DuckDBPyConnection, query: str, parameters: object = None
) -> list[dict[str, Any]]:
    """Return the rows of a query as dictionaries by column name."""
    cursor = connection.execute(query, parameters)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def _add_rows(
    connection: DuckDBPyConnection, relation: str, query: str, rows: Counter[str]
) -> None:
    """Add the rows of a query to a relation of the attached file, and their number to `rows`."""
    connection.execute(f"create table if not exists exported.{relation} as {query} limit 0")
    [(count,)] = connection.execute(f"insert into exported.{relation} {query}").fetchall()
    rows[relation] += count


def _create(relation: str, cursor: DuckDBPyConnection, query: str) -> None:
    kind = "view" if relation.partition(".")[2] in VIEWS else "table"
    cursor.execute(f"create {kind} {relation} as {query}")


def _audit(path: Path, cursor: DuckDBPyConnection, query: str) -> AuditFailure | None:
    rows = read_rows(cursor, query)
    examples = [
        ", ".join(f"{name}={value}" for name, value in row.items()) for row in rows[:AUDIT_EXAMPLES]
    ]
    meaning = query.partition("\n")[0].removeprefix("-- Must be empty:").strip()
    return AuditFailure(path.stem, meaning, len(rows), tuple(examples)) if rows else None
