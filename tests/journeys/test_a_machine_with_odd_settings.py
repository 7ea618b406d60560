"""Network settings, a locale and files that cannot be used: one line that names them."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from flows.cli.app import app
from tests.journeys.command_line import GOLD, Terminal
from tests.servers.postgres import free_port

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PROXIED = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
UNUSABLE = [
    *({name: "socks5://127.0.0.1:9"} for name in (*PROXIED, "all_proxy")),
    {"HTTPS_PROXY": "gopher://127.0.0.1:70"},
    {"HTTP_PROXY": "http://"},
    {"HTTP_PROXY": "http://127.0.0.1:port"},
    {"NO_PROXY": "[", "HTTP_PROXY": "http://127.0.0.1:9"},
    {"SSL_CERT_FILE": "/nonexistent"},
    {"REQUESTS_CA_BUNDLE": "/dev/null"},
    {"LC_ALL": "xx_YY.bad"},
]


def on(terminal: Terminal, variables: Mapping[str, str]) -> Terminal:
    return replace(terminal, variables=terminal.variables | variables)


@pytest.mark.parametrize("variables", UNUSABLE, ids=lambda each: "-".join(each))
def test_a_setting_that_cannot_be_used_is_named(variables: Mapping[str, str]) -> None:
    """The line names the variable."""
    done = CliRunner().invoke(app, ["status"], env=dict(variables))
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert next(iter(variables)) in done.stderr


@pytest.mark.journey("status")
def test_a_program_names_such_a_setting(terminal: Terminal) -> None:
    """Python itself starts with it."""
    for variables in (UNUSABLE[0], UNUSABLE[-1]):
        assert next(iter(variables)) in on(terminal, variables).refused("status")


@pytest.mark.full
def test_loopback_needs_no_proxy(terminal: Terminal) -> None:
    """A run reaches its Prefect server, and `doctor` names the proxy that does not answer."""
    dead = {name: f"http://127.0.0.1:{free_port()}" for name in PROXIED}
    proxied = on(terminal, {**dead, "NO_PROXY": "host.example, 10.0.0.0/8"})
    proxied.durabench("run", proxied.write("e.yaml", GOLD))
    printed = proxied.durabench("doctor", code=3)
    assert "ok       a request on loopback is answered" in printed
    assert [name for name in PROXIED if f"problem  {name}: the proxy" in printed] == list(PROXIED)
