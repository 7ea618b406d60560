"""What does a budget buy?"""

from reports.questions.budgets.section import answer as answer
