"""A repository's kind and its commands, detected from its files alone.

detection   the project in a work tree, or None: nothing is assumed
python      Python: pytest, unittest, Django, tox
node        Node.js: package managers by lock file, test runners by script
others      Go, Rust and make
suites      a test command, and the source of its results; the files that detection reads
running     a suite run in a workspace
"""

from agent.project.detection import Project, detect
from agent.project.running import run_suite
from agent.project.suites import Files, Folder, Suite, custom
