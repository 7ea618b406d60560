"""Harnesses by model."""

from reports.questions.harnesses.section import answer as answer
