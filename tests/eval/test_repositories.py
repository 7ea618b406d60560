"""Repositories over HTTP and from paths become instances without remotes or later commits."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from eval import repositories
from eval.errors import DatasetError
from eval.repositories import Access
from tests.agent.repositories import with_files
from tests.servers.forge import Forge

pytestmark = pytest.mark.slow

NAME = "octo/demo"
ACCESS = Access()


@pytest.fixture
def forge(tmp_path: Path) -> Iterator[Forge]:
    with Forge(tmp_path / "forge") as forge:
        forge.add(NAME, {"a.py": "1\n"})
        yield forge


def test_each_form_names_the_same_repository(forge: Forge) -> None:
    """An address, owner/name and an issue name it; the issue has its number."""
    address = f"{forge.url}/{NAME}.git"
    for given in (address, NAME, f"{forge.url}/{NAME}/issues/7"):
        found = repositories.source(given, forge.url)
        assert (found.address, found.name, found.web) == (address, NAME, forge.url)
    assert found.issue == 7
    assert repositories.source("git@host:octo/demo.git", "").name == NAME


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("nonsense", "names no repository"),
        ("/no/such/folder", "no such folder"),
        ("https://user:secret@host/a/b", "leave them out"),
        ("ext::sh -c x", "names no repository"),
        ("ftp://host/a/b", "use https or ssh"),
        ("-u:x", "names no repository"),
        ("git@-oProxyCommand=x:y", "names no repository"),
        ("host:--upload-pack=x", "names no repository"),
    ],
)
def test_a_source_that_names_no_repository_is_one_line(given: str, said: str) -> None:
    """The message says what to give instead, and repeats no password."""
    with pytest.raises(DatasetError, match=said) as raised:
        repositories.source(given, "https://forge.example")
    assert "secret" not in str(raised.value)


def test_changes_without_a_commit_are_refused(tmp_path: Path) -> None:
    """Work starts at a commit, so changed files would be missing."""
    with_files({"a.py": "1\n"})(tmp_path / "repo")
    (tmp_path / "repo" / "a.py").write_text("2\n")
    with pytest.raises(DatasetError, match=r"has changed files that are not committed \(1\)"):
        repositories.source(str(tmp_path / "repo"), "")


PROGRAMS = """\
[core]
	fsmonitor = {program}
	hooksPath = {hooks}
	sshCommand = {program}
	alternateRefsCommand = {program}
[filter "odd"]
	clean = {program}
	smudge = {program}
	process = {program}
	required = true
[diff "odd"]
	textconv = {program}
	command = {program}
[uploadpack]
	packObjectsHook = {program}
[include]
	path = more
"""


def _foreign(folder: Path, program: str) -> Path:
    """Make a repository whose configuration names a program in every place."""
    with_files({"a.py": "1\n", "b.py": "1\n", "sub/c.py": "1\n"})(folder)
    (folder / ".gitattributes").write_text("* filter=odd diff=odd\n")
    for arguments in (["add", "."], ["commit", "-qm", "attributes"]):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    hooks = folder / ".git" / "own-hooks"
    hooks.mkdir()
    for name in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\n{program}\n")
        (hooks / name).chmod(0o755)
    config = folder / ".git" / "config"
    with config.open("a") as file:
        file.write(PROGRAMS.format(program=program, hooks=hooks))
    (folder / ".git" / "more").write_text(f'[filter "more"]\n\tclean = {program}\n')
    (folder / ".git" / "info").mkdir(exist_ok=True)
    (folder / ".git" / "info" / "attributes").write_text("b.py filter=more\n")
    return folder


def test_nothing_of_a_repository_runs_on_the_host(tmp_path: Path) -> None:
    """Its configuration names programs that git would run on files. It is not even read."""
    ran = tmp_path / "ran"
    folder = _foreign(tmp_path / "repo", f"touch {ran}")
    for path in (folder / "a.py", folder / "b.py"):
        os.utime(path, (1, 1))  # so that git compares the contents
    source = repositories.source(str(folder / "sub"), "")
    assert source.address == str(folder)
    mirror = repositories.fetch_mirror(source, tmp_path / "cache", ACCESS)
    assert repositories.base(mirror, None).branch
    assert repositories.origin(source, "") is None
    (folder / "a.py").write_text("2\n")
    with pytest.raises(DatasetError, match="changed files that are not committed"):
        repositories.source(str(folder), "")
    assert not ran.exists()


def test_a_folder_of_another_user_is_not_trusted(tmp_path: Path) -> None:
    """Git refuses it, and so do we, before anything in it is used."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    folder = _foreign(tmp_path / "repo", f"touch {tmp_path / 'ran'}")
    for path in (folder, folder / ".git"):
        os.chown(path, 65534, 65534)
    with pytest.raises(DatasetError, match="belongs to another user"):
        repositories.source(str(folder), "")
    assert not (tmp_path / "ran").exists()


def test_a_work_tree_elsewhere_is_refused(tmp_path: Path) -> None:
    """The configuration of a repository could name any folder of the machine."""
    with_files({"a.py": "1\n"})(tmp_path / "repo")
    subprocess.run(["git", "config", "core.worktree", "/etc"], cwd=tmp_path / "repo", check=True)
    with pytest.raises(DatasetError, match="has its work tree elsewhere"):
        repositories.source(str(tmp_path / "repo"), "")


def test_a_linked_index_is_not_followed(tmp_path: Path) -> None:
    """It could be an endless device, or a file that only this user may read."""
    with_files({"a.py": "1\n"})(tmp_path / "repo")
    index = tmp_path / "repo" / ".git" / "index"
    index.rename(index.with_name("other"))
    index.symlink_to("other")
    with pytest.raises(DatasetError, match="is not a git repository"):
        repositories.source(str(tmp_path / "repo"), "")


def test_a_work_tree_has_the_history_up_to_its_base_and_no_remote(
    forge: Forge, tmp_path: Path
) -> None:
    """A later commit of the branch is not in it, not even as an object."""
    given = repositories.source(NAME, forge.url)
    mirror = repositories.fetch_mirror(given, tmp_path, ACCESS)
    base = repositories.base(mirror, None)
    assert base.branch == "main"
    later = forge.commit(NAME, {"a.py": "2\n"}, "later")
    repositories.fetch_mirror(given, tmp_path, ACCESS)
    assert repositories.base(mirror, "main").commit == later
    instance = repositories.instance("demo-1", given, base.commit, "Do it.", "image", "")
    assert repositories.is_here(instance, tmp_path)
    work = tmp_path / "work"
    repositories.checkout(instance, work, tmp_path)
    run = ["git", "-C", str(work)]
    assert subprocess.check_output([*run, "remote"]) == b""
    assert subprocess.check_output([*run, "rev-parse", "HEAD"], text=True).strip() == base.commit
    assert subprocess.run([*run, "cat-file", "-e", later], check=False).returncode != 0


def test_the_files_of_a_commit_are_read_without_a_work_tree(forge: Forge, tmp_path: Path) -> None:
    """Detection reads paths and texts from the mirror."""
    given = repositories.source(NAME, forge.url)
    mirror = repositories.fetch_mirror(given, tmp_path, ACCESS)
    files = repositories.CommitFiles(mirror, repositories.base(mirror, None).commit)
    assert files.paths == {"a.py"}
    assert (files.text("a.py"), files.text("b.py")) == ("1", "")


def test_a_token_opens_a_private_repository_and_is_left_nowhere(
    forge: Forge, tmp_path: Path
) -> None:
    """Without it the message says what to set; with it no file of the mirror has it."""
    forge.is_private = True
    given = repositories.source(NAME, forge.url)
    for access in (ACCESS, Access("wrong")):
        with pytest.raises(DatasetError, match="set DURABENCH_FORGE_TOKEN"):
            repositories.fetch_mirror(given, tmp_path, access)
    mirror = repositories.fetch_mirror(given, tmp_path, Access(forge.token))
    found = [p for p in mirror.rglob("*") if p.is_file() and forge.token.encode() in p.read_bytes()]
    assert found == []
    assert forge.token not in repr(Access(forge.token))


@pytest.mark.parametrize("ref", ["none", "--all", "main~9"])
def test_a_missing_ref_is_one_line(ref: str, forge: Forge, tmp_path: Path) -> None:
    """The message names the ref."""
    mirror = repositories.fetch_mirror(repositories.source(NAME, forge.url), tmp_path, ACCESS)
    with pytest.raises(DatasetError, match="no branch, tag or commit"):
        repositories.base(mirror, ref)


def test_a_missing_repository_is_one_line(forge: Forge, tmp_path: Path) -> None:
    """The message names the address."""
    with pytest.raises(DatasetError, match="there is no repository"):
        repositories.fetch_mirror(repositories.source("octo/none", forge.url), tmp_path, ACCESS)
