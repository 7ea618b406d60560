"""Prefect's records on the terminal, which quote untrusted texts, such as error messages."""

import logging

from prefect.logging.handlers import PrefectConsoleHandler

from reports.quoting import make_visible


class ConsoleHandler(PrefectConsoleHandler):
    """Prefect's handler, for visible text only."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record as visible text."""
        return make_visible(super().format(record))
