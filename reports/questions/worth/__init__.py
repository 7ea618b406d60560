"""Which arm is worth its cost?"""

from reports.questions.worth.section import answer as answer
