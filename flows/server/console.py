"""Prefect's records on the terminal, which hold texts of strangers, such as those of errors."""

import logging

from prefect.logging.handlers import PrefectConsoleHandler

from reports.quoting import make_visible


class ConsoleHandler(PrefectConsoleHandler):
    """Prefect's handler, for visible text only."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as visible text."""
        return make_visible(super().format(record))
