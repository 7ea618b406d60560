"""What does it cost?"""

from reports.questions.cost.section import answer as answer
