"""Which arm is best, how sure is that, and at which price?"""

from reports.questions.resolution.section import answer as answer
