"""Errors of `reports`.

ReportError    the report cannot be built as requested; one line that says what to do
  UnreadableError  a file of the lake is damaged, or its disk fails
"""


class ReportError(Exception):
    """The requested lake, experiment or arms cannot give a report."""

    def _render_traceback_(self) -> list[str]:
        """Return the lines that a notebook shows instead of a traceback."""
        return [str(self)]


class UnreadableError(ReportError):
    """A file of the lake is damaged, or its disk fails."""
