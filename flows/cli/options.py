"""Options that several commands share."""

from typing import Annotated, Literal

import typer

LakeOption = Annotated[
    str | None,
    typer.Option(
        "--lake",
        envvar="DURABENCH_LAKE",
        help="folder or s3://bucket/prefix of results; default ./lake",
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        help="LiteLLM model string for every arm that needs a model, such as openai/gpt-5, or a "
        "model block: {name: …} or a YAML file"
    ),
]
ApiBaseOption = Annotated[str | None, typer.Option(help="URL of the API of your own model server")]
EnvironmentOption = Annotated[
    Literal["auto", "docker", "host"] | None,
    typer.Option(
        "--environment", "-e", help="auto: docker if a daemon answers, else host for bundled tasks"
    ),
]
ResourcesOption = Annotated[
    str | None,
    typer.Option(
        "--resources",
        help="limits of each container: memory_gb, cpus, pids, disk_gb, as memory_gb=16,cpus=4",
    ),
]
DatasetOption = Annotated[
    str,
    typer.Option(
        "--dataset",
        "-d",
        help="bundled, bundled-polyglot, a Hugging Face id, a file, or a folder of tasks",
    ),
]
SplitOption = Annotated[str, typer.Option(help="split of a dataset or task repo")]
IdsOption = Annotated[list[str] | None, typer.Option("--id", help="instance id; repeatable")]
RegexOption = Annotated[str, typer.Option(help="only instance ids that match")]
SliceOption = Annotated[str, typer.Option("--slice", help="Python slice, such as 0:5")]
FullOption = Annotated[
    bool,
    typer.Option("--full", help="show the complete input and output of each step"),
]
