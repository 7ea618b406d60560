"""A network that can fail: a proxy in front of a local server."""

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress


class Cable:
    """A connection to a local server that can be cut or silenced, and mended."""

    def __init__(self, port: int, at: tuple[str, int] = ("127.0.0.1", 0)) -> None:
        """Listen at an address, by default on a free port of the loopback."""
        self._target, self._address = port, at[0]
        self._silent = False
        self.change: Callable[[bytes], bytes] | None = None
        """What each piece of an answer becomes."""
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(at)
        self.port = int(self._listener.getsockname()[1])
        self._listen()

    def cut(self) -> None:
        """Reset every open connection and refuse new ones."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for end in list(self._open):
            with suppress(OSError):
                # Without time to linger, closing the socket resets the connection.
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                end.shutdown(socket.SHUT_RDWR)

    def silence(self) -> None:
        """Accept connections, but drop all data in both directions."""
        self._silent = True

    def mend(self) -> None:
        """Restore normal operation."""
        self._silent, self.change = False, None
        if self._listener.fileno() < 0:
            self._listener = socket.create_server((self._address, self.port))
            self._listen()

    def _listen(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                far = socket.create_connection(("127.0.0.1", self._target))
                for pump in ((near, far, False), (far, near, True)):
                    self._open.add(pump[0])
                    threading.Thread(target=self._pump, args=pump, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while data := source.recv(2**16):
                if is_answer and self.change:
                    data = self.change(data)
                if not self._silent:
                    sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
        self._open.discard(source)
        source.close()
