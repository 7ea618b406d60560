"""Results of tests that code in the same container, as the same user, tries to write."""

from collections.abc import AsyncIterator, Iterator

import pytest
from docker import DockerClient

from agent.tools import ToolSettings
from agent.tools.testing import run_paths
from agent.workspaces import DockerWorkspace
from tests.agent.containers import image_of

pytestmark = pytest.mark.docker

REPOSITORY = r"""
git init -q && git config user.email a@b.c && git config user.name a
printf 'def add(a, b):\n    return a - b\n' >calc.py
printf 'from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n' >test_calc.py
git add . && git commit -qm base && git tag base
"""

FORGE = r"""
import base64, hashlib, hmac, json, os, re, sys, zlib


def forge(nonce, target):
    name = "test_calc.py::test_add"
    records = [["begin", "x"], ["collected", name]]
    records += [["result", name, when, "passed", ""] for when in ("setup", "call", "teardown")]
    result = {"exit_code": 0, "problem": "", "records": [*records, ["end", "0"]]}
    sealed = base64.b64encode(zlib.compress(json.dumps(result).encode()))
    mark = hashlib.sha256(b"mark" + nonce).hexdigest().encode()
    seal = hmac.new(nonce, sealed, hashlib.sha256).hexdigest().encode()
    with open(target, "wb", 0) as output:
        output.write(b"\n" + mark + b" " + sealed + b" " + seal + b"\n")
"""
"""Seals a passing test with the secret of a run."""

FORGER = rf"""
mkdir -p /opt/forged && cat >/opt/forged/python <<'END'
#!/usr/bin/python3 -IS
{FORGE}
forge(json.loads(sys.stdin.readline())[1]["nonce"].encode(), "/dev/stdout")
END
chmod +x /opt/forged/python; found=$(type -P python); real=$(readlink -f "$found")
"""
"""An interpreter that answers with a passing test, sealed with the secret that it is given."""

PLANTED = {
    "on PATH by the profile": "echo 'PATH=/opt/forged:$PATH' | tee -a ~/.bashrc ~/.profile",
    "as a function": "echo 'python() { /opt/forged/python; }' | tee -a ~/.bashrc ~/.bash_profile",
    "as an alias": "echo 'shopt -s expand_aliases; alias python=/opt/forged/python' >>~/.bashrc",
    "in the place of the link": 'rm "$found" && cp /opt/forged/python "$found"',
    "in the place of the program": 'cp "$real" /usr/bin/python3-real && '
    'sed -i "s/python3 -IS/python3-real -IS/" /opt/forged/python && cp /opt/forged/python "$real"',
    "earlier on PATH": "cp /opt/forged/python /usr/local/sbin/python",
    "as a library that is loaded first": "echo /opt/forged/none.so >/etc/ld.so.preload",
    "in a module": "echo 'raise SystemExit(0)' >>$(python -c 'import json; print(json.__file__)')",
    "in the place of the program, with its size and date": 'cp -p "$real" /usr/bin/python3-real && '
    'sed -i "s/python3 -IS/python3-real -IS/" /opt/forged/python && '
    'missing=$(($(stat -c %s "$real") - $(stat -c %s /opt/forged/python))) && '
    'head -c $missing /dev/zero | tr "\\0" "#" >>/opt/forged/python && '
    'cp /opt/forged/python "$real" && touch -r /usr/bin/python3-real "$real"',
    "as a package": "cd $(python -c 'import os; print(os.path.dirname(os.__file__))') && "
    "mkdir hmac && echo 'raise SystemExit(0)' >hmac/__init__.py",
    "by variables of the profile": "echo 'export PYTHONHOME=/opt PYTHONPATH=/opt LD_PRELOAD=x' "
    "| tee -a ~/.bashrc ~/.profile",
    "as a link to the shell's own": "ln -sf /opt/forged/python /usr/local/bin/python",
}

READER = (
    FORGE
    + r"""

def memory(process):
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "rb", 0) as content:
        for line in maps:
            place, rights, *_ = line.split()
            begin, end = (int(each, 16) for each in place.split("-"))
            if rights.startswith("rw") and end - begin < 1 << 27:
                content.seek(begin)
                yield content.read(end - begin)


for process in filter(str.isdigit, os.listdir("/proc")):
    if int(process) == os.getpid():
        continue
    try:
        nonces = {
            nonce
            for part in memory(process)
            for nonce in re.findall(rb'nonce[\\]*": [\\]*"([0-9a-f]{64})', part)
        }
        for nonce in nonces:
            forge(nonce, f"/proc/{process}/fd/1")
            os._exit(0)
    except OSError:
        pass
"""
)
"""Looks for the secret in the memory of all processes, and writes to their outputs."""


@pytest.fixture(scope="module")
def image(docker_client: DockerClient) -> Iterator[str]:
    with image_of(REPOSITORY, docker_client) as tag:
        yield tag


@pytest.fixture
async def workspace(image: str) -> AsyncIterator[DockerWorkspace]:
    workspace = await DockerWorkspace.open(image=image, base_commit="base")
    yield workspace
    await workspace.close()


async def test_a_right_change_passes_and_a_wrong_one_fails(workspace: DockerWorkspace) -> None:
    """Without an attack the results are those of pytest, whatever commands did before."""
    await workspace.run("echo x >/usr/local/lib/note; pip --version; touch ~/.bashrc", timeout_s=60)
    done = await run_paths(workspace, ToolSettings(), ["test_calc.py"])
    assert (done.failed, done.problem) == (["test_calc.py::test_add"], "")
    await workspace.write("calc.py", b"def add(a, b):\n    return a + b\n")
    done = await run_paths(workspace, ToolSettings(), ["test_calc.py"])
    assert (done.passed, done.problem, done.exit_code) == (["test_calc.py::test_add"], "", 0)


@pytest.mark.parametrize("plant", PLANTED.values(), ids=PLANTED)
async def test_no_other_interpreter_gets_the_secret(workspace: DockerWorkspace, plant: str) -> None:
    """The tests run with the interpreter of the image, or the run proves nothing."""
    planted = await workspace.run(f"{FORGER}\n{plant}", timeout_s=60)
    assert planted.exit_code == 0, planted.output
    done = await run_paths(workspace, ToolSettings(), ["test_calc.py"])
    assert done.passed == []
    assert done.failed == ["test_calc.py::test_add"] or done.problem


async def test_compiled_modules_may_change(workspace: DockerWorkspace) -> None:
    """No compiled module is read, because Python compiles them again."""
    planted = await workspace.run(
        "python - <<'END'\nimport json\nopen(json.__cached__, 'wb').write(b'not a module')\nEND",
        timeout_s=60,
    )
    assert planted.exit_code == 0, planted.output
    done = await run_paths(workspace, ToolSettings(), ["test_calc.py"])
    assert (done.failed, done.problem) == (["test_calc.py::test_add"], "")


async def test_no_process_shows_the_secret(workspace: DockerWorkspace) -> None:
    """Code of a patch may read the memory of the shell, which has nothing to do with the run."""
    await workspace.write("calc.py", f"{READER}\ndef add(a, b):\n    return a - b\n".encode())
    done = await run_paths(workspace, ToolSettings(), ["test_calc.py"])
    assert done.failed == ["test_calc.py::test_add"]


async def test_what_tests_leave_behind_is_ended(workspace: DockerWorkspace) -> None:
    """As after every command. A run that takes too long is ended, too."""
    await workspace.write("calc.py", b"import os, time\nif not os.fork():\n    time.sleep(600)\n")
    await run_paths(workspace, ToolSettings(), ["test_calc.py"])
    assert await _programs(workspace) == []
    await workspace.write("calc.py", b"import time\ntime.sleep(600)\n")
    done = await run_paths(workspace, ToolSettings(test_timeout_s=2), ["test_calc.py"])
    assert (done.exit_code, done.passed) == (124, [])
    assert done.problem
    assert await _programs(workspace) == []


async def _programs(workspace: DockerWorkspace) -> list[str]:
    """Return the paths of running interpreters. A process that was killed has none any more."""
    paths = (await workspace.run("readlink /proc/[0-9]*/exe", timeout_s=9)).output.split()
    return [path for path in paths if "python" in path]
