"""Python programs that run apart from a workspace's shell, with the interpreter of its opening.

A command can change `~/.bashrc`, PATH or the interpreter, and code that runs as the same user can
read the memory of the shell. So the program that starts tests gets its secret directly.
"""

import asyncio
import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from agent.workspaces.shell import ByteReader, ByteWriter, Output

_CHUNK_BYTES = 256 * 2**10
_OF_THE_SHELL = ("PWD", "OLDPWD", "SHLVL", "_", "WORKSPACE_MARK")

OPTIONS = ("-I", "-S", "-B")
"""Options of the interpreter: no file of a user or of a package is read."""

_UNCOMPILED = ("-X", "pycache_prefix=/nonexistent")
"""Options of Python 3.8 and newer that ignore compiled files. They cost a tenth of a second."""

LOOK = r"""
python=$(type -P python) || exit 127
env -0 | base64 -w0 && echo && "$python" -I -S -c "$look"
"""
"""Prints the environment of a login shell, and then the output of `_LOOK` in its interpreter."""

_LOOK = """
import base64, binascii, ctypes, hashlib, hmac, json, os, subprocess, sys, threading, zlib
modules = [module for module in list(sys.modules.values()) if getattr(module, "__file__", None)]
files = [module.__file__ for module in modules]
folders = sorted({os.path.dirname(os.path.realpath(name)) for name in files if name})
ignores_compiled = sys.version_info >= (3, 8)
if not ignores_compiled:
    files += [module.__cached__ for module in modules if getattr(module, "__cached__", None)]
for line in open("/proc/self/maps"):
    parts = line.split(None, 5)
    if len(parts) == 6 and parts[5].startswith("/"):
        files.append(parts[5].rstrip("\\n"))
place = sys.executable
while place:
    files.append(place)
    link = os.readlink(place) if os.path.islink(place) else ""
    place = link and os.path.join(os.path.dirname(place), link)
for folder in (os.path.dirname(sys.executable), os.path.dirname(os.path.dirname(sys.executable))):
    files.append(os.path.join(folder, "pyvenv.cfg"))
files += ["/etc/ld.so.preload", "/etc/ld.so.cache"] + [name for name in sys.path if name]
places = sorted({place for name in files if name for place in (name, os.path.realpath(name))})
print(json.dumps([sys.executable, ignores_compiled, places, folders]))
"""


class NoPython(Exception):
    """No interpreter can be trusted. The message is one line."""


class Process(Protocol):
    """A program that runs."""

    async def talk(self, stdin: bytes, output: Output) -> int:
        """Send the program its input, and add what it prints to `output`. Return its exit code."""
        ...


@dataclass(frozen=True)
class Interpreter:
    """The Python that a login shell finds in an image, and its files."""

    command: tuple[str, ...]
    """The path of the interpreter, and its options."""
    environment: Mapping[str, str]
    files: tuple[str, ...]
    folders: tuple[str, ...]
    """Folders of modules, in which a new file could take the place of another one."""


def look_command() -> str:
    """Return the command whose output `read_interpreter` takes."""
    return f"look=$(base64 -d <<<{base64.b64encode(_LOOK.encode()).decode()}){LOOK}"


def read_interpreter(printed: str) -> Interpreter:
    """Return the interpreter that a login shell in an unused container finds.

    Raises:
        NoPython: the image lacks an interpreter.
    """
    try:
        *_, encoded, report = printed.strip().splitlines()
        variables = base64.b64decode(encoded, validate=True).decode(errors="surrogateescape")
        path, ignores_compiled, files, folders = json.loads(report)
    except (ValueError, TypeError):
        raise NoPython("python: command not found") from None
    pairs = (variable.partition("=") for variable in variables.split("\0") if variable)
    environment = {name: value for name, _, value in pairs if name not in _OF_THE_SHELL}
    command = (path, *OPTIONS, *(_UNCOMPILED if ignores_compiled else ()))
    return Interpreter(command, environment, tuple(files), tuple(folders))


async def exchange(reader: ByteReader, writer: ByteWriter, stdin: bytes, output: Output) -> None:
    """Send the input, and add everything until the end to `output`."""

    async def send() -> None:
        writer.write(stdin)
        await writer.drain()

    sending = asyncio.create_task(send())
    try:
        while chunk := await reader.read(_CHUNK_BYTES):
            output.add(chunk)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
