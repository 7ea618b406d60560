"""What can go wrong in `reports`.

ReportError    the report cannot be made as asked; one line that says what to do
"""


class ReportError(Exception):
    """The lake, the experiment or the arms asked for cannot give a report."""
