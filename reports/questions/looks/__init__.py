"""What may be concluded before the end?"""

from reports.questions.looks.section import answer as answer
