"""Where do the numbers come from?"""

from reports.questions.source.section import answer as answer
