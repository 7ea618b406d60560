"""The paths and the environment that grading uses in a workspace."""

import shlex
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from eval.evaluation_files import read_record, watch
from eval.types import ROOT, CommandOutput, GradingShell

# A workspace runs commands in a login shell, whose profile replaces PATH and may set anything.
# The official runner executes them with the environment of the container. That is the
# environment of process 1, so it is restored before the command starts. A loop does this,
# because bash before 4.4 lacks `mapfile -d`.
_AS_BY_DOCKER_EXEC = (
    "umask 022; original=(); "
    'while IFS= read -r -d "" variable; do original+=("$variable"); done </proc/1/environ; '
    'exec env -i "${original[@]}" '
)


# The routing table has a header line. A container without network has no route and may not
# add one.
_HAS_NO_ROUTE = "/bin/bash -c '[[ $(wc -l </proc/net/route) -le 1 ]]'"
_CHECK_TIMEOUT_S = 60.0

_BEGINS = "--- durabench: output"
"""A line before the output of a command."""

_NO_ROOM = 28  # ENOSPC
_HAS_ROOM = (
    "/bin/bash -c 'for folder in . /tmp; do "
    'read -r blocks bytes < <(stat -f -c "%a %S" $folder); '
    f"[[ ! $blocks ]] || ((blocks * bytes >= 2 ** 20)) || exit {_NO_ROOM}; done'"
)


class OfficialShell:
    """Adapter that gives grading the official runner's view of one workspace."""

    def __init__(self, shell: GradingShell) -> None:
        self._shell = shell
        self._in_container = in_container = shell.environment == "docker"
        # On the host the files lie next to the repository. Inside it they would show up in the
        # tree, and anywhere else two gradings would share them.
        folder = PurePosixPath(shell.root).parent
        self._patch = "/tmp/patch.diff" if in_container else str(folder / "patch.diff")  # noqa: S108
        self._script = "/eval.sh" if in_container else str(folder / "eval.sh")
        self.tree_folder = "/var/tmp/.applied" if in_container else str(folder / "applied")  # noqa: S108
        """Folder outside the repository, for the records that the audit reads."""
        self._record = f"{self.tree_folder}/rewritten"
        self.installed_below = "/" if in_container else ""
        """Folder that has every interpreter of a container. On the host that would be too large."""
        # Eval scripts write to git's global configuration. On the host that is the user's own.
        git_config = shlex.quote(str(folder / "eval.gitconfig"))
        on_host = f"exec env GIT_CONFIG_GLOBAL={git_config} "
        self._prefix = _AS_BY_DOCKER_EXEC if in_container else on_host

    @property
    def limits_reached(self) -> Mapping[str, str]:
        """Return the limits of the workspace that were reached, by the name of their setting."""
        return self._shell.limits_reached

    async def is_disk_full(self) -> bool:
        """Return True if the disk of this machine has no room for the work tree or for /tmp."""
        checked = await self.run(_HAS_ROOM, timeout_s=_CHECK_TIMEOUT_S)
        return checked.exit_code == _NO_ROOM

    @property
    def patch_file(self) -> str:
        """Path of the patch file, quoted for a shell."""
        return shlex.quote(self._patch)

    async def write_patch(self, patch: str) -> None:
        """Write the patch to `patch_file`, for the apply commands.

        Raises:
            UnicodeEncodeError: the patch contains half a surrogate pair.
        """
        await self._shell.write(self._patch, patch.encode("utf-8"))

    async def write_script(self, script: str, tests: Iterable[str]) -> None:
        """Write the eval script next to the patch, with this workspace's repository path.

        It watches the files `tests` of the repository while its tests run.
        """
        if not self._in_container:
            script = script.replace(ROOT, self._shell.root)
        files = [str(PurePosixPath(self._shell.root, path)) for path in tests]
        script = watch(script, files, script_file=self._script, record=self._record)
        await self._shell.write(self._script, script.encode("utf-8", "surrogateescape"))

    @property
    def root(self) -> str:
        """Path of the repository."""
        return self._shell.root

    async def run(
        self, command: str, *, timeout_s: float, max_output_bytes: int | None = None
    ) -> CommandOutput:
        """Run one program with its arguments in the repository's root, as `docker exec` does."""
        return await self._shell.run(
            f"{self._prefix}{command}", timeout_s=timeout_s, max_output_bytes=max_output_bytes
        )

    async def call(
        self,
        script: str,
        command: str,
        variables: Mapping[str, str],
        *,
        timeout_s: float,
        max_output_bytes: int | None = None,
    ) -> tuple[CommandOutput, list[str] | None]:
        """Run a command after a Bash script with variables. Return the end, and the printed lines.

        The lines are None if the script ended before the command.
        """
        settings = [f"{name}={shlex.quote(value)}" for name, value in variables.items()]
        text = "\n".join([*settings, script, f"echo {shlex.quote(_BEGINS)}", command])
        done = await self.run(
            f"/bin/bash -c {shlex.quote(text)}",
            timeout_s=timeout_s,
            max_output_bytes=max_output_bytes,
        )
        # The profile of a login shell can print lines before.
        _, has_begun, output = done.output.partition(f"{_BEGINS}\n")
        return done, output.splitlines() if has_begun else None

    async def is_offline(self) -> bool:
        """Return True for a container without network. A host is never offline."""
        if not self._in_container:
            return False
        checked = await self.run(_HAS_NO_ROUTE, timeout_s=_CHECK_TIMEOUT_S)
        return checked.exit_code == 0

    async def run_script(self, *, timeout_s: float, max_output_bytes: int) -> CommandOutput:
        """Run the eval script as the official runner does."""
        return await self._shell.run(
            f"{self._prefix}/bin/bash {shlex.quote(self._script)}",
            timeout_s=timeout_s,
            max_output_bytes=max_output_bytes,
        )

    async def read_rewritten(self) -> tuple[str, ...]:
        """Return the watched files that changed while the tests of the script ran."""
        read = await self.run(f"cat -- {shlex.quote(self._record)}", timeout_s=_CHECK_TIMEOUT_S)
        return read_record(read.output if read.exit_code == 0 else "", self._shell.root)
