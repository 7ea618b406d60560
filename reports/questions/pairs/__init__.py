"""Every pair of arms."""

from reports.questions.pairs.section import answer as answer
