"""Test runners of repositories, and the channel of their results.

`runner` says how a repository's tests are run: a command, a path style, an adapter. It runs them so
that results do not come from text that the code under test can print:

* A parent program of the harness, isolated from the repository, starts the runner's process and
  takes its exit code. What it reports is sealed with a nonce that no child sees.
* An observer is loaded into the runner's process before any code of the repository. It records
  every test at its start and its end, by functions bound at that time, signed with a key of the
  run in an unbroken chain.
* Names, counts, the final record and the exit code must agree. A run that is cut short, has a
  forged record, changes its test files while it runs, or replaces functions of the
  test runner is an error and never a pass.

The limits: the observer shares a process with the code under test. Code that is written against
this harness, and searches the memory of the interpreter for the observer's closures, can still
forge records. So can code that makes tests meaningless without touching the runner, such as an
`__eq__` that is always true.

`reporters` are other runners, which write a report that `reports` parses. Code under test could
forge it, so their results are called reported and not observed. Its names and the exit code must
agree. Runners with the adapter `summary` have neither: their text and their exit code are all there
is, and both must say that tests pass.
"""

from agent.runners.reporters import REPORT, collect_report, find_reporter, get_arguments
from agent.runners.reports import Format, NamesByResult
from agent.runners.reports import read as read_report
from agent.runners.runner import (
    PYTEST,
    ObservedResults,
    TestRunner,
    prepare,
    runner_of,
)
