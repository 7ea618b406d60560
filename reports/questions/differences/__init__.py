"""Where do the arms of the leading pair differ?"""

from reports.questions.differences.section import answer as answer
