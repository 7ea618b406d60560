"""Text files with their encoding and line ends, which an edit must preserve."""

import io
import tokenize
from dataclasses import dataclass

from agent.tools.tool import Refused

_BINARY_LOOK_BYTES = 8000  # where git looks for a zero byte


@dataclass(frozen=True)
class Text:
    """The content of a text file, with its original line ends."""

    content: str
    encoding: str = "utf-8"

    @property
    def is_crlf(self) -> bool:
        """True if every line ends in CR LF."""
        ends = self.content.count("\n")
        return ends > 0 and self.content.count("\r\n") == ends

    def encode(self, content: str) -> bytes:
        """Encode new content for the same file.

        Raises:
            Refused: the file's encoding lacks a character.
        """
        try:
            return content.encode(self.encoding)
        except UnicodeEncodeError as error:
            raise Refused(
                f"the file is in {self.encoding}, which cannot hold "
                f"{content[error.start : error.end]!r}; write it as an escape sequence"
            ) from error


def decode(content: bytes, path: str) -> Text:
    """Decode a file as UTF-8, else as a Python file declares, else as Latin-1.

    Latin-1 fits any bytes.

    Raises:
        Refused: it is a binary file.
    """
    if b"\0" in content[:_BINARY_LOOK_BYTES]:
        raise Refused(f"{path} is a binary file of {len(content)} bytes")
    for encoding in ("utf-8", _declared(content)):
        try:
            text = content.decode(encoding)
            if text.encode(encoding) == content:
                return Text(text, encoding)
        except (UnicodeError, LookupError):
            continue
    return Text(content.decode("latin-1"), "latin-1")


def with_crlf(content: str) -> str:
    """Return the same lines, each ending in CR LF."""
    return content.replace("\r\n", "\n").replace("\n", "\r\n")


def _declared(content: bytes) -> str:
    try:
        return tokenize.detect_encoding(io.BytesIO(content).readline)[0]
    except SyntaxError:
        return "latin-1"
