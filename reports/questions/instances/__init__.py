"""Which instances are resolved, and by how many arms?"""

from reports.questions.instances.section import answer as answer
