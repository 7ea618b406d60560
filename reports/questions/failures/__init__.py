"""Why do attempts fail?"""

from reports.questions.failures.section import answer as answer
