"""Reading a repository's text from a workspace, on the host and in a container."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field

import pytest
from docker import DockerClient

from agent.errors import WorkspaceError
from agent.index.sources import Sources, lines, read_sources
from agent.workspaces import CommandResult, DockerWorkspace, HostWorkspace, Workspace
from tests.agent.containers import image_of
from tests.agent.repositories import by_script

REPOSITORY = r"""
set -e
git init -q -b main .
git config user.name Tester
git config user.email tester@example.org
mkdir -p pkg/deep outside/kept
printf 'x = 1\n' >pkg/deep/mod.py
printf 'un\r\ndeux\r\n' >crlf.txt
printf 'caf\351\n' >latin.txt
printf '\0\1\2' >binary.dat
printf 'spaces\n' >'two  words.txt'
printf 'unicode\n' >'naïve ☃.txt'
printf 'newline\n' >$'two\nlines.txt'
printf 'dash\n' >-rf.txt
printf 'quote\n' >"it's.txt"
printf 'latin name\n' >$'caf\351.txt'
: >empty.txt
printf 'gone\n' >gone.txt
printf '*.log\nbuild/\n' >.gitignore
printf 'inside\n' >outside/kept/file.txt
ln -s pkg/deep/mod.py link.py
ln -s /etc/passwd passwd.txt
git add -A
git commit -qm base
git tag base
printf 'hard\n' >hard1.txt
ln hard1.txt hard2.txt
rm gone.txt
rm -r outside && ln -s /etc outside
mkdir build && echo ignored >build/x.txt && echo ignored >run.log
"""

TEXTS = {
    "-rf.txt": "dash\n",
    ".gitignore": "*.log\nbuild/\n",
    "crlf.txt": "un\r\ndeux\r\n",
    "empty.txt": "",
    "hard1.txt": "hard\n",
    "hard2.txt": "hard\n",
    "it's.txt": "quote\n",
    "latin.txt": "caf�\n",
    "naïve ☃.txt": "unicode\n",
    "pkg/deep/mod.py": "x = 1\n",
    "two  words.txt": "spaces\n",
    "two\nlines.txt": "newline\n",
}


@pytest.fixture(scope="session")
def image(docker_client: DockerClient) -> Iterator[str]:
    """Yield an image with the repository in /testbed."""
    with image_of(REPOSITORY, docker_client) as tag:
        yield tag


@pytest.fixture(params=["host", pytest.param("docker", marks=pytest.mark.docker)])
async def workspace(request: pytest.FixtureRequest) -> AsyncIterator[Workspace]:
    """Yield a workspace on the host, then one in a container."""
    opened: Workspace
    if request.param == "host":
        opened = await HostWorkspace.open(prepare=by_script(REPOSITORY), base_commit="base")
    else:
        opened = await DockerWorkspace.open(
            image=request.getfixturevalue("image"), base_commit="base"
        )
    yield opened
    await opened.close()


@pytest.fixture
async def on_host() -> AsyncIterator[HostWorkspace]:
    """Yield a workspace on the host."""
    workspace = await HostWorkspace.open(prepare=by_script(REPOSITORY), base_commit="base")
    yield workspace
    await workspace.close()


@dataclass
class Counting:
    """A workspace that records the results of its commands."""

    inner: Workspace
    results: list[CommandResult] = field(default_factory=list)

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    async def run(
        self, command: str, *, timeout_s: float, max_output_bytes: int | None = None
    ) -> CommandResult:
        result = await self.inner.run(
            command, timeout_s=timeout_s, max_output_bytes=max_output_bytes
        )
        self.results.append(result)
        return result


async def settle(workspace: Workspace) -> None:
    """Wait until the kernel's clock has moved past the time of the last change."""
    done = await workspace.run(
        "until [[ $(find . -newermt '-0.05 seconds' -print -quit 2>&1) == '' ]]; do :; done",
        timeout_s=30,
    )
    assert done.exit_code == 0


async def test_only_tracked_and_new_files_are_read(workspace: Workspace) -> None:
    """Files with odd names are read. Links, ignored files and nested repositories are not."""
    await workspace.run("git init -q nested && echo other >nested/other.txt", timeout_s=10)
    sources = await read_sources(workspace)
    assert sources.texts == TEXTS
    assert sorted(sources.stamps) == sorted([*TEXTS, "binary.dat"])


async def test_reading_again_fetches_only_what_changed(workspace: Workspace) -> None:
    """Without changes nothing is fetched, and after an edit only the changed files are."""
    await settle(workspace)
    first = await read_sources(workspace)
    counting = Counting(workspace)
    assert await read_sources(counting, known=[first]) == first
    assert len(counting.results) == 1

    await workspace.write("pkg/deep/mod.py", b"x = 2\n")
    await workspace.write("pkg/new.py", b"y = 1\n")
    await workspace.run("rm empty.txt", timeout_s=10)
    again = await read_sources(counting, known=[first])
    assert len(counting.results) == 3
    assert counting.results[-1].output_bytes < 20_000
    expected = {**TEXTS, "pkg/deep/mod.py": "x = 2\n", "pkg/new.py": "y = 1\n"}
    del expected["empty.txt"]
    assert again.texts == expected


async def test_a_change_within_a_clock_tick_is_seen(on_host: HostWorkspace) -> None:
    """A change of the same size right before or after a reading is still noticed."""
    known: list[Sources] = []
    for number in range(10):
        await on_host.write("pkg/deep/mod.py", f"x = {number}\n".encode())
        known = [await read_sources(on_host, known=known)]
        assert known[0].texts["pkg/deep/mod.py"] == f"x = {number}\n"


async def test_a_change_that_hides_its_time_is_seen(on_host: HostWorkspace) -> None:
    """Setting back the modification time hides no change, because the time of change counts."""
    await settle(on_host)
    first = await read_sources(on_host)
    await on_host.run(
        "cp -p pkg/deep/mod.py $TMPDIR/ref; printf 'x = 9\\n' >pkg/deep/mod.py; "
        "touch -r $TMPDIR/ref pkg/deep/mod.py",
        timeout_s=10,
    )
    again = await read_sources(on_host, known=[first])
    assert again.texts["pkg/deep/mod.py"] == "x = 9\n"


async def test_a_reading_of_another_workspace_can_be_known(on_host: HostWorkspace) -> None:
    """Files with the same names and sizes in two workspaces are distinguished."""
    await settle(on_host)
    known = await read_sources(on_host)
    other = await HostWorkspace.open(prepare=by_script(REPOSITORY), base_commit="base")
    try:
        await other.write("pkg/deep/mod.py", b"x = 7\n")
        assert (await read_sources(other, known=[known])).texts["pkg/deep/mod.py"] == "x = 7\n"
    finally:
        await other.close()


async def test_files_beyond_the_limits_are_left_out(on_host: HostWorkspace) -> None:
    """Files that are too large, or beyond the total, are not read. Python files come first."""
    await on_host.write("big.txt", b"b" * 2000)
    await on_host.write("big.py", b"#" * 500)
    sources = await read_sources(on_host, max_file_bytes=1000, max_total_bytes=512)
    assert set(sources.texts) >= {"big.py", "pkg/deep/mod.py"}
    assert "big.txt" not in sources.texts
    assert sum(len(text.encode()) for text in sources.texts.values()) <= 512
    assert set(sources.stamps) == {*sources.texts, "binary.dat"}


async def test_git_settings_of_the_repository_do_not_matter(on_host: HostWorkspace) -> None:
    """Settings for quoting and line ends, and a missing index, change nothing."""
    await on_host.run(
        "git config core.quotePath true; git config core.autocrlf true; "
        "git config status.showUntrackedFiles no; rm .git/index",
        timeout_s=10,
    )
    assert (await read_sources(on_host)).texts == TEXTS


@pytest.mark.full
async def test_many_files_and_bytes(on_host: HostWorkspace) -> None:
    """Ten thousand file names and nearly a megabyte of text are read with two commands."""
    await on_host.run(
        "mkdir many && cd many && seq 10000 | split -l 1 -a 4 - a_rather_long_name_of_a_file_ && "
        "yes 'some line of code' | head -c 900000 >big.py",
        timeout_s=60,
    )
    counting = Counting(on_host)
    sources = await read_sources(counting)
    assert len(counting.results) == 2
    assert len(sources.texts) == len(TEXTS) + 10_001
    assert len(sources.texts["many/big.py"]) == 900_000


async def test_a_missing_repository_is_a_permanent_error(on_host: HostWorkspace) -> None:
    """A folder without a git repository gives an error that is not retryable."""
    await on_host.run("rm -rf .git", timeout_s=10)
    with pytest.raises(WorkspaceError, match="cannot list the files") as caught:
        await read_sources(on_host)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a"]),
        ("a\n\n", ["a", ""]),
        ("a\r\nb\rc\nd", ["a", "b", "c", "d"]),
        ("a\fb\u2028c\vd\n", ["a\fb\u2028c\vd"]),
    ],
)
def test_lines_are_numbered_as_python_does(text: str, expected: list[str]) -> None:
    """Only the three line ends of source code separate lines."""
    assert lines(text) == expected
