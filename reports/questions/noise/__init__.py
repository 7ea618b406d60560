"""Where does the noise come from?"""

from reports.questions.noise.section import answer as answer
