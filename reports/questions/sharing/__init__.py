"""Draws that derived arms share."""

from reports.questions.sharing.section import answer as answer
