"""The arms, and the states of the planned cells."""

from reports.questions.arms.section import answer as answer
