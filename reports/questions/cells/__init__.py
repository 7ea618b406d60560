"""Every instance."""

from reports.questions.cells.section import answer as answer
