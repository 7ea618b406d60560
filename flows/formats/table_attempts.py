"""A table of published results as attempts, for a comparison that is not written to a lake."""

from collections.abc import Mapping
from pathlib import Path

from flows.display.terminal import warn
from flows.formats import lake_rows, table_files
from flows.formats.attempts import ExchangedAttempt, ReadFiles, describe, read_content
from flows.formats.table_files import open_sheet
from flows.formats.tables import AMOUNTS, create_results
from reports.relations import read_rows

_READ = f"""
select arm, instance, repeat, repo, difficulty, model, harness, attempt, graded,
    {", ".join(f"{kind} as {column}" for column, kind in AMOUNTS.items())}
from results order by row
"""  # noqa: S608


def read(path: Path, columns: Mapping[str, str]) -> ReadFiles:
    """Read the attempts of a table of results, as `import_table` understands it.

    Raises:
        UsageError: the file, a column or a row cannot be used.
    """
    content = read_content(path)
    with open_sheet(path, table_files.flatten(path, content)) as sheet:
        for note in create_results(path, sheet, columns, needs_arm=False):
            warn(f"{path}: {note}")
        found = read_rows(sheet.connection, _READ)
    read_attempts = []
    for row in found:
        ended, instance, repo = row["attempt"], row["instance"], row["repo"]
        if ended is None:
            continue
        facts = describe(
            str(path),
            {name: row[name] for name in AMOUNTS},
            **{name: row[name] for name in ("arm", "repeat", "difficulty")},
            agent=row["harness"] or "imported",
            model=row["model"] or "unknown",
            instance_id=instance,
            repo=repo or lake_rows.repository(instance),
            outcome=ended,
            detail=path.name,
            verdict=row["graded"],
        )
        read_attempts.append(ExchangedAttempt(facts, str(path), f"{row['arm']} {row['repeat']}"))
    ids = dict.fromkeys(row["instance"] for row in found)
    return ReadFiles(read_attempts, path.name, tuple(ids))
