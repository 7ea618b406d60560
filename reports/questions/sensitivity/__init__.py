"""How far do the numbers of the leading pair depend on single cells?"""

from reports.questions.sensitivity.section import answer as answer
