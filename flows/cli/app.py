"""The command line: `durabench --help`.

Prefect, LiteLLM, DuckDB and swebench each take a second or more to import. Every command therefore
imports them when it is called, so that `--help` answers at once.
"""

import typer

from flows.cli import (
    agents,
    chat,
    debug,
    demo,
    diagnose,
    doctor,
    export,
    fork,
    grade,
    graph,
    history,
    images,
    imports,
    job,
    pipeline,
    power,
    prune,
    report,
    run,
    serve,
    serve_flows,
    setup,
    status,
    trace,
)
from flows.cli.exits import OneLineErrors

app = typer.Typer(
    cls=OneLineErrors,
    help="Is a more careful coding agent worth its cost? Paired benchmarks over SWE-bench.",
    epilog="Exit codes: 0 done, 1 a stated gate failed, 2 wrong usage, 3 broken infrastructure.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command()(demo.demo)
app.command()(run.run)
app.command()(debug.debug)
app.command()(status.status)
app.command()(trace.trace)
app.command()(graph.graph)
app.command()(diagnose.diagnose)
app.command()(fork.fork)
app.command()(grade.grade)
app.command()(report.report)
app.command()(history.history)
app.command()(power.power)
app.command()(export.export)
app.command()(chat.chat)
app.command()(chat.send)
app.command()(chat.end)
app.command()(chat.approve)
app.add_typer(imports.import_app, name="import")
app.add_typer(images.images_app, name="images")
app.add_typer(agents.agents_app, name="agents")
app.add_typer(job.job_app, name="job")
app.command()(job.jobs)
app.add_typer(pipeline.pipeline_app, name="pipeline")
app.command()(prune.prune)
app.command()(setup.setup)
app.command()(serve_flows.serve_flows)
app.command()(serve.serve)
app.command()(doctor.doctor)
