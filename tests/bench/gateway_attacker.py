"""A hostile program: `gateway_attacker.py PORT KEY BYTES`. It sends to loopback only, and ends.

It uses nothing but the standard library, as a program in a container would.
"""

import http.client
import sys
import threading

PORT, KEY, BYTES = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/messages/count_tokens")
MIB = 2**20
LARGEST = 32 * MIB


def bodies():
    """Yield bodies as pieces, and whether their length is declared."""
    text = b"x" * MIB
    yield [text] * (BYTES // MIB), True
    yield [text] * (BYTES // MIB), False
    for _ in range(8):
        yield [b'{"a": "', *[text] * 31, b'"}'], True
        yield [b'{"a": "', *[text] * 31, b'"}'], False
        yield [b'{"messages": [', b"{}," * (LARGEST // 4), b"{}]}"], True
        yield [b'{"messages": [', b"[]," * 900_000, b"[]]}"], True
        yield [b'{"messages": ', b"[" * MIB, b"]" * MIB, b"}"], True


def send(number, pieces, declared):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=120)
    headers = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}
    if declared:
        headers["Content-Length"] = str(sum(map(len, pieces)))
    try:
        connection.request(
            "POST",
            PATHS[number % len(PATHS)],
            body=iter(pieces),
            headers=headers,
            encode_chunked=not declared,
        )
        connection.getresponse().read()
    except OSError:
        pass  # the gateway has closed the connection
    finally:
        connection.close()


threads = [
    threading.Thread(target=send, args=(number, *body)) for number, body in enumerate(bodies())
]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
