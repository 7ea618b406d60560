"""How do the arms work, and where does the money go?"""

from reports.questions.effort.section import answer as answer
