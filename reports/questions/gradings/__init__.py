"""How wrong may the grader be?"""

from reports.questions.gradings.section import answer as answer
