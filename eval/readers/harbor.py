"""Task folders of Harbor 1.x: task.toml, instruction.md, environment/ and tests/test.sh.

The tests run on a fresh container with the agent's changes to the working folder, as Harbor's
separate verifier does. The reward file decides.
"""

import base64
import gzip
import io
import json
import re
import shlex
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from eval import harness, resources
from eval.digests import canonical_digest
from eval.errors import DatasetError
from eval.readers.swebench import INSTANCE_ID
from eval.types import Instance, OwnRules, Phase

CONFIG = "task.toml"
"""The file that marks a folder as a task."""

LOGS = "/logs/verifier"
"""Folder in the container for the results of the tests."""

_SOLUTION = "/solution"
_MAX_BYTES = 50 * 2**20
_WORKDIR = re.compile(r"^\s*WORKDIR\s+(?P<folder>\S+)", re.IGNORECASE | re.MULTILINE)
_USER = re.compile(r"^\s*USER\s+(?P<user>\S+)", re.IGNORECASE | re.MULTILINE)
_STAGE = re.compile(r"^\s*FROM\s", re.IGNORECASE | re.MULTILINE)
_FROM_HOST = re.compile(r"\$\{")
_DEFAULT = re.compile(r"\$\{\w+:-(?P<default>.*)\}", re.DOTALL)
_GIT = "git -c safe.directory='*' -c user.name=task -c user.email=task"
_NEEDED = "git bash coreutils findutils grep diffutils"


def _use_defaults(variables: dict[str, str]) -> dict[str, str]:
    """Return variables with their defaults, without a look at the variables of this machine."""
    return {
        name: found["default"] if (found := _DEFAULT.fullmatch(value)) else value
        for name, value in variables.items()
    }


_Variables = Annotated[dict[str, str], AfterValidator(_use_defaults)]
_Seconds = Annotated[float, Field(gt=0, le=7 * 24 * 3600, allow_inf_nan=False)]
_Network = Literal["public", "no-network", "allowlist"]


class _Environment(BaseModel):
    network_mode: _Network | None = None
    allow_internet: bool | None = None
    """The older name of `network_mode`, which comes first."""
    healthcheck: Any = None
    tpu: Any = None
    docker_image: str | None = None
    workdir: str | None = None
    os: str = "linux"
    gpus: int | None = None
    env: _Variables = {}
    mcp_servers: list[Any] = []


class _Agent(BaseModel):
    network_mode: _Network | None = None
    timeout_sec: _Seconds | None = None


class _Solution(BaseModel):
    env: _Variables = {}


class _Verifier(BaseModel):
    network_mode: _Network | None = None
    collect: list[Any] = []
    timeout_sec: _Seconds = 600.0
    env: _Variables = {}
    environment_mode: Literal["shared", "separate"] | None = None
    environment: dict[str, Any] | None = None


class _Metadata(BaseModel):
    difficulty: Any = None
    resolved_reward: float = Field(default=1.0, gt=0, le=1)
    """Ours: the reward from which the task counts as resolved."""


class _Config(BaseModel):
    """The fields of task.toml that are read. Releases of Harbor add others."""

    environment: _Environment = _Environment()
    agent: _Agent = _Agent()
    verifier: _Verifier = _Verifier()
    solution: _Solution = _Solution()
    metadata: _Metadata = _Metadata()
    steps: list[Any] | None = None

    @property
    def networks(self) -> dict[Phase, _Network]:
        """The network of each phase: its own, or the environment's."""
        general = self.environment.network_mode
        if general is None:
            general = "no-network" if self.environment.allow_internet is False else "public"
        return {
            "work": self.agent.network_mode or general,
            "tests": self.verifier.network_mode or general,
        }


def is_task(folder: Path) -> bool:
    """Return True if a folder is a task."""
    return (folder / CONFIG).is_file()


def list_tasks(folder: Path) -> list[Path]:
    """Return the tasks in a folder, which may be one itself, in the order of their names."""
    if is_task(folder):
        return [folder]
    return [child for child in sorted(folder.iterdir()) if child.is_dir() and is_task(child)]


def find_task(dataset: Path, instance_id: str) -> Path | None:
    """Return the folder of an instance in a dataset of tasks, or None if it has no such task."""
    places = (dataset, dataset / instance_id)
    return next((task for task in places if is_task(task) and _name(task) == instance_id), None)


def parse(folder: Path) -> Instance:
    """Return a task folder as an instance.

    Raises:
        DatasetError: a file is missing, or the task needs something that is not offered.
    """
    try:
        return _parse(folder)
    except DatasetError as error:
        raise DatasetError(f"a Harbor task {error}") from None
    except OSError as error:
        raise DatasetError(f"a Harbor task cannot be read: {error}") from None


def write_dockerfile(folder: Path) -> str:
    """Return the Dockerfile of a task, with a repository in its working folder.

    Raises:
        DatasetError: the task cannot be used.
    """
    config, text = _read_config(folder), _read_dockerfile(folder)
    root, users = shlex.quote(_find_root(config, text)), _USER.findall(_last_stage(text))
    lines = [
        text.rstrip("\n"),
        "USER root",
        "RUN { command -v git bash && find . -maxdepth 0 -printf ''; } >/dev/null 2>&1"
        f" || (apt-get update && apt-get install -y {_NEEDED}) || apk add {_NEEDED}",
        f"RUN mkdir -p {root} && cd {root} && if [ ! -d .git ]; then git init -q && {_GIT} add -A"
        f" && {_GIT} commit -q --allow-empty -m Task; fi"
        f" && chown -R --reference={root} {root}/.git"
        f" && mkdir -p {_SOLUTION} && chmod 777 {_SOLUTION}",  # any user can unpack it
        f"WORKDIR {root}",
        *(f"ENV {name}={shlex.quote(value)}" for name, value in config.environment.env.items()),
        *(f"USER {user}" for user in users[-1:]),
    ]
    return "\n".join([*lines, ""])


def _parse(folder: Path) -> Instance:
    config = _read_config(folder)
    name = _name(folder)
    if not INSTANCE_ID.fullmatch(name):
        raise DatasetError("has a folder whose name holds other characters than letters and digits")
    dockerfile = write_dockerfile(folder)
    statement = _read_text(folder / "instruction.md")
    for script in ("tests/test.sh", "solution/solve.sh"):
        if (folder / script).is_file() and b"\r\n" in (folder / script).read_bytes():
            raise DatasetError(f"has Windows line ends in {script}, which no shell can run")
    if not (folder / "tests" / "test.sh").is_file():
        raise DatasetError("has no tests/test.sh")
    tests, solution = _pack(folder / "tests"), ""
    if (folder / "solution" / "solve.sh").is_file():
        unpack = _unpack(_pack(folder / "solution"), _SOLUTION)
        exports = _export(config.solution.env)
        solution = "\n".join([*unpack, *exports, f"{_SOLUTION}/solve.sh", ""])
    root = _find_root(config, _read_dockerfile(folder))
    row = {
        "instance_id": name,
        "difficulty": config.metadata.difficulty,
        "environment": _read_toml(folder / CONFIG).get("environment"),
        "dockerfile": dockerfile,
        "context": canonical_digest(list(_list_files(folder / "environment"))),
        "tests": tests,
        "run_script": _read_text(folder / "tests" / "test.sh"),
        "statement": statement,
        "verifier": config.verifier.model_dump(),
        "networks": config.networks,
        "work_limit_s": config.agent.timeout_sec,
    }
    if (resolved_reward := config.metadata.resolved_reward) != 1:
        row["resolved_reward"] = resolved_reward
    image = f"durabench/harbor:{canonical_digest([name, row['dockerfile'], row['context']])[:24]}"
    return Instance(
        instance_id=name,
        repo=name,
        version="",
        base_commit="HEAD",
        problem_statement=statement,
        patch="",
        test_patch="",
        image=image,
        eval_script=_write_script(root, tests, config.verifier.env),
        log_parser="",
        eval_type="pass_and_fail",
        fail_to_pass=(),
        pass_to_pass=(),
        row=row,
        demand=resources.demand(row),
        root=root,
        rules=OwnRules("reward", resolved_reward=resolved_reward),
        solution=solution,
        timeout_s=config.verifier.timeout_sec,
        work_limit_s=config.agent.timeout_sec,
        offline=frozenset(phase for phase, mode in config.networks.items() if mode != "public"),
    )


def _name(folder: Path) -> str:
    return folder.resolve().name


def _read_config(folder: Path) -> _Config:
    try:
        config = _Config.model_validate(_read_toml(folder / CONFIG))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise DatasetError(f"has a wrong value of {place} in task.toml: {first['msg']}") from None
    if config.steps or (folder / "steps").is_dir():
        raise DatasetError("with several steps is not supported: run it with Harbor")
    if config.environment.os.lower() != "linux":
        raise DatasetError(f"needs containers of {config.environment.os}: run it with Harbor")
    if config.environment.gpus:
        raise DatasetError("needs a GPU, and containers have none here: run it with Harbor")
    if config.environment.mcp_servers:
        raise DatasetError("needs MCP servers: run it with Harbor")
    if any((folder / "environment").glob("docker-compose.y*ml")):
        raise DatasetError("needs several containers (docker-compose): run it with Harbor")
    if config.verifier.environment is not None:
        raise DatasetError("has another image for its tests: run it with Harbor")
    if config.environment.tpu:
        raise DatasetError("needs a TPU: run it with Harbor")
    if config.environment.healthcheck or config.verifier.collect:
        raise DatasetError("needs a running service (healthcheck, collect): run it with Harbor")
    if "allowlist" in config.networks.values():
        raise DatasetError("reaches some hosts only (allowed_hosts): run it with Harbor")
    if any("\n" in value for value in config.environment.env.values()):
        raise DatasetError("has several lines in a variable of [environment]: run it with Harbor")
    variables = (config.environment.env, config.verifier.env, config.solution.env)
    for name, value in chain.from_iterable(each.items() for each in variables):
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise DatasetError(f"has {name!r} as the name of a variable")
        if _FROM_HOST.search(value):
            raise DatasetError(f"takes {name} from this machine, which is not given to containers")
    return config


def _read_toml(path: Path) -> dict[str, Any]:
    """Return a file as values of JSON: dates become text."""
    text = _read_text(path)
    try:
        content: dict[str, Any] = json.loads(json.dumps(tomllib.loads(text), default=str))
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"has a {path.name} that is not TOML: {error}") from None
    return content


def _read_text(path: Path) -> str:
    _refuse_link(path)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DatasetError(f"has no {path.name}") from None
    except UnicodeDecodeError:
        raise DatasetError(f"has a {path.name} that is not UTF-8") from None


def _read_dockerfile(folder: Path) -> str:
    path = folder / "environment" / "Dockerfile"
    if path.is_file():
        return _read_text(path)
    image = _read_config(folder).environment.docker_image
    if not image:
        raise DatasetError("has neither environment/Dockerfile nor docker_image")
    if not re.fullmatch(r"\S+", image):
        raise DatasetError("has a docker_image with spaces")
    return f"FROM {image}\n"


def _last_stage(dockerfile: str) -> str:
    starts = [match.start() for match in _STAGE.finditer(dockerfile)]
    return dockerfile[starts[-1] :] if starts else dockerfile


def _find_root(config: _Config, dockerfile: str) -> str:
    """Return the working folder: the folder that task.toml states, or the last WORKDIR."""
    root = config.environment.workdir
    for folder in _WORKDIR.findall(_last_stage(dockerfile)):
        root = config.environment.workdir or str(Path(root or "/", folder))
    if root is None or not re.fullmatch(r"/[\w./-]+", root):
        raise DatasetError("names no working folder: set workdir in [environment] of task.toml")
    return root


def _list_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield path and digest of each file of a folder."""
    _refuse_link(folder)
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        _refuse_link(path)
        if path.is_file():
            yield str(path.relative_to(folder)), canonical_digest(path.read_bytes().hex())


def _refuse_link(path: Path) -> None:
    """Raise DatasetError if a path leads elsewhere: it could be any file of this machine."""
    if path.is_symlink():
        raise DatasetError(f"has a symbolic link, {path.name}")


def _pack(folder: Path) -> str:
    """Return the files of a folder as a compressed archive in base64, equal for equal files."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        size = 0
        for name, _ in _list_files(folder):
            content = (folder / name).read_bytes()
            if (size := size + len(content)) > _MAX_BYTES:
                raise DatasetError(f"has more than {_MAX_BYTES // 2**20} MB in {folder.name}/")
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), 0o755
            archive.addfile(member, io.BytesIO(content))
    return base64.b64encode(packed.getvalue()).decode()


def _unpack(packed: str, folder: str) -> list[str]:
    return [
        f"mkdir -p {folder} && find {folder} -mindepth 1 -delete",
        f"base64 -d <<'END_OF_ARCHIVE' | tar -xz -C {folder}",
        packed,
        "END_OF_ARCHIVE",
    ]


def _export(variables: Mapping[str, str]) -> list[str]:
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]


def _write_script(root: str, tests: str, variables: Mapping[str, str]) -> str:
    start, end = harness.log_markers()
    lines = [
        "#!/bin/bash",
        f"cd {shlex.quote(root)}",
        *_unpack(tests, "/tests"),
        f"rm -rf {LOGS} && mkdir -p {LOGS}",
        *_export(variables),
        f"echo '{start}'",
        "/tests/test.sh",
        f"echo '{end}'",
        "",
    ]
    return "\n".join(lines)
