"""Ask the ports of the compose file without credentials, and print what they answer as JSON.

The test of the compose file gives this text to the Python of a container in the network of compose.
"""

import json
import socket
import struct
import urllib.error
import urllib.request

REQUESTS = {
    "server:4200": [
        ("GET", "/api/health"),
        ("GET", "/api/admin/settings"),
        ("POST", "/api/flow_runs/filter"),
        ("POST", "/api/deployments/filter"),
        ("POST", "/api/block_documents/filter"),
    ],
    "service:8200": [("GET", "/health"), ("GET", "/jobs"), ("POST", "/jobs")],
}


def ask(place: str, method: str, path: str) -> int:
    """Return the status of an answer."""
    body = b"{}" if method == "POST" else None
    request = urllib.request.Request(f"http://{place}{path}", body, method=method)
    request.add_header("Content-Type", "application/json")
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


def ask_database() -> str:
    """Return what PostgreSQL answers to the start of a connection without a password."""
    text = b"user\0durabench\0database\0durabench\0\0"
    with socket.create_connection(("database", 5432), timeout=30) as stream:
        stream.sendall(struct.pack("!II", 8 + len(text), 3 << 16) + text)
        answer = stream.recv(9)
    is_password = answer[:1] == b"R" and struct.unpack("!I", answer[5:9])[0] in {3, 5, 10}
    return "asks for a password" if is_password else repr(answer)


if __name__ == "__main__":
    answers: dict[str, str | int] = {"database": ask_database()}
    for place, requests in REQUESTS.items():
        for method, path in requests:
            answers[f"{method} {place}{path}"] = ask(place, method, path)
    print(json.dumps(answers))
