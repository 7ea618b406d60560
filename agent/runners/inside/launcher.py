"""The parent of a run of tests: starts the runner, checks its records, and seals them.

Runs isolated (`python -I -S`), outside of all code under test. The runner's process has a pipe for
its records, which it signs with a key of this run. What the parent reports to the harness is
sealed with another key, which no child ever sees.
"""

import base64
import binascii
import ctypes
import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
import zlib

PR_SET_DUMPABLE = 4
DRAIN_S = 2.0
IGNORED = ("PYTEST_ADDOPTS", "PYTEST_PLUGINS")  # a profile that a command wrote could set these
CHUNK = 65536

# The first statements of the runner's process. The folder of the repository is not yet on the
# path, so that no module of it can take the place of one that is imported here.
START = """
import sys
if sys.path and sys.path[0] == "":
    del sys.path[0]
import json, os
with os.fdopen(int(sys.argv[1]), "rb") as stream:
    given = json.loads(stream.read().decode())
code = compile(given.pop("source"), "<durabench>", "exec")
scope = {"__name__": "durabench", "GIVEN": given, "RECORDS": int(sys.argv[2])}
del given, stream
exec(code, scope)
"""


def hide():
    """Keep other processes of the same user from reading this one's memory and descriptors."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    except (OSError, AttributeError):
        pass


def digests(targets):
    """Return the SHA-256 of every Python file at the targets."""
    found = {}
    for target in targets:
        names = [target]
        if os.path.isdir(target):
            names = [
                os.path.join(folder, name)
                for folder, _, files in os.walk(target)
                for name in files
                if name.endswith(".py")
            ]
        for name in names:
            try:
                with open(name, "rb") as stream:
                    found[os.path.realpath(name)] = hashlib.sha256(stream.read()).hexdigest()
            except OSError:
                pass
    return found


def relay(source):
    """Pass on the output of the runner."""
    while True:
        chunk = os.read(source, CHUNK)
        if not chunk:
            return
        view = memoryview(chunk)
        while view:
            view = view[os.write(1, view) :]


def collect(source, lines):
    """Collect the lines of the records' pipe."""
    with os.fdopen(source, "rb") as stream:
        lines.extend(stream)


def send(target, text):
    """Give the runner's process its program and its key."""
    try:
        with os.fdopen(target, "wb") as stream:
            stream.write(text)
    except OSError:
        pass


def check_chain(lines, key):
    """Return the records whose signatures form an unbroken chain, and a problem or ''."""
    records, last = [], b""
    for line in lines:
        body, _, signature = line.rstrip(b"\n").rpartition(b" ")
        inner = hashlib.sha256(key + last + body).digest()
        expected = hashlib.sha256(key + inner).hexdigest().encode()
        if not hmac.compare_digest(expected, signature):
            return records, "a record of the test run is not signed by the harness"
        last = expected
        records.append(
            [binascii.unhexlify(part).decode("utf-8", "replace") for part in body.split(b",")]
        )
    return records, ""


def run(given):
    """Run the tests. Return the result, with the exit code of the runner's process."""
    key = binascii.hexlify(os.urandom(32))
    before = digests(given["targets"])
    program_out, program_in = os.pipe()
    records_out, records_in = os.pipe()
    environment = dict(os.environ, **given["environment"])
    for name in IGNORED:
        environment.pop(name, None)
    child = subprocess.Popen(
        [sys.executable] + given["options"] + ["-c", START, str(program_out), str(records_in)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment,
        pass_fds=(program_out, records_in),
    )
    os.close(program_out)
    os.close(records_in)
    lines = []
    readers = [
        threading.Thread(target=relay, args=(child.stdout.fileno(),), daemon=True),
        threading.Thread(target=collect, args=(records_out, lines), daemon=True),
    ]
    for reader in readers:
        reader.start()
    send(program_in, json.dumps(dict(given["program"], key=key.decode())).encode())
    exit_code = child.wait()
    for reader in readers:  # a process that was left behind may hold the pipes
        reader.join(DRAIN_S)
    records, problem = check_chain(list(lines), key)
    after = digests(given["targets"])
    read = [record[1:] for record in records if record[0] == "file"]
    changed = [name for name in before if after.get(name) != before[name]]
    changed += [name for name, digest in read if before.get(name, digest) != digest]
    if changed:
        names = sorted({os.path.relpath(name) for name in changed})
        problem = problem or "test files changed while the tests ran: " + ", ".join(names)
    exit_code = exit_code if exit_code >= 0 else 128 - exit_code
    return {"exit_code": exit_code, "problem": problem, "records": records}


def main(given):
    """Run the tests and write the sealed result to standard output."""
    hide()
    result = run(given)
    payload = base64.b64encode(zlib.compress(json.dumps(result).encode()))
    nonce = given["nonce"].encode()
    mark = hashlib.sha256(b"mark" + nonce).hexdigest().encode()
    seal = hmac.new(nonce, payload, hashlib.sha256).hexdigest().encode()
    with os.fdopen(1, "wb", closefd=False) as stream:
        stream.write(b"\n" + mark + b" " + payload + b" " + seal + b"\n")
    os._exit(result["exit_code"])
