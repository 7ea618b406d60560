"""How much was wasted?"""

from reports.questions.spending.section import answer as answer
