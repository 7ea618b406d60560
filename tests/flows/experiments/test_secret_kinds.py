"""Secrets are recognised by kind, in any encoding, and words are not."""

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest

from flows.experiments.secret_kinds import KINDS, check_readable, find_secret

LONG = "0aB1cD2eF3gH4iJ5kL6mN7oP8qR9sT0uV1wX2yZ3"
SECRETS = [
    ("a key of OpenAI", f"sk-{LONG}"),
    ("a key of OpenAI", f"sk-proj-{LONG[:20]}_{LONG[:9]}-{LONG}"),
    ("a key of OpenAI", "sk-" + "a1b2c3d4" * 4),
    ("a key of Anthropic", f"sk-ant-api03-{LONG}-AA"),
    ("a key of OpenRouter", "sk-or-v1-" + "0123456789abcdef" * 4),
    ("a key of Google", f"AIzaSy{LONG[:33]}"),
    ("a key of AWS", "AKIAIOSFODNN7EXAMPLE"),
    ("a key of AWS", "ASIAIOSFODNN7EXAMPLE"),
    *(("a token of GitHub", f"gh{kind}_{LONG[:36]}") for kind in "pousr"),
    ("a token of GitHub", f"github_pat_{LONG[:22]}_{LONG}"),
    ("a token of GitLab", f"glpat-{LONG[:20]}"),
    ("a token of Hugging Face", f"hf_{LONG[:34]}"),
    *(("a token of Slack", f"xox{kind}-123456789012-{LONG[:24]}") for kind in "abprs"),
    ("a key of Groq", f"gsk_{LONG}"),
    ("a key of xAI", f"xai-{LONG}"),
    *(
        ("a private key", f"-----BEGIN {kind}PRIVATE KEY-----\nMII")
        for kind in ("", "RSA ", "OPENSSH ", "ENCRYPTED ")
    ),
    ("an address with a password", "https://me:pass@forge.example/a/b"),
    ("an address with a password", "postgresql+psycopg://:pass@db/x"),
]


def encodings(secret: str) -> list[str]:
    """Return a secret in each form in which people pass it on."""
    encoded = [base64.b64encode(f"{'x' * n}:{secret}".encode()).decode() for n in range(3)]
    return [
        secret,
        f"use '{secret}', please",
        f"TOKEN={secret}",
        quote(secret, safe=""),
        "".join(f"%{byte:02x}" for byte in secret.encode()),
        "".join(f"\\u{ord(each):04x}" for each in secret),
        "".join(f"&#{ord(each)};" for each in secret),
        *encoded,
        base64.urlsafe_b64encode(secret.encode()).decode().rstrip("="),
        f"https://forge.example/?auth={encoded[0]}",
    ]


@pytest.mark.parametrize(("kind", "secret"), SECRETS)
def test_a_secret_is_found_in_any_form(kind: str, secret: str) -> None:
    """The error names the place and the kind, and nothing of the secret."""
    for text in encodings(secret):
        assert find_secret(text) == kind, text
        for value in ({"a": [{"b": text}]}, {"a": {text: 1}}):
            with pytest.raises(ValueError, match=kind) as refused:
                check_readable(value)
            assert str(refused.value).startswith("a.")
            assert secret[-8:] not in str(refused.value)


def test_every_kind_has_an_example() -> None:
    """A kind without one would be untried."""
    assert {kind for kind, _ in SECRETS} == set(KINDS)


@pytest.mark.parametrize(
    "text",
    [
        "Rename sk-learn-compatible-estimator-checks-v2-of-the-module to task-runner-configuration",
        "https://forge.example/a/b@c:d, git@forge.example:octo/demo.git and ssh://git@host:22/x",
        "http://localhost:8000/v1, C:/Users/me@home and https://a.example:443/x?mail=me@b.example",
        "glossary-of-terms-in-this-file, hf_transfer_is_enabled_by_default, xoxo-hugs-and-kisses",
        "ghp_token, gsk_, AKIA, ASIAPACIFICREGIONALOFFICES, AIza, sk-ant-, xai-grok-4-reasoning",
        "-----BEGIN CERTIFICATE----- and -----BEGIN PUBLIC KEY-----",
        "0" * 64
        + " "
        + "deadbeef" * 8
        + " "
        + base64.b64encode(b"an ordinary text " * 20).decode(),
        "openrouter/anthropic/claude-sonnet-4.5 100% of %s and %(name)s \\u0041 &amp;",
    ],
)
def test_words_are_no_secrets(text: str) -> None:
    """Names that begin like a key, addresses, digests and other encoded texts are let through."""
    assert find_secret(text) is None


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"task": "a\0b"}, "task: it has a NUL"),
        ({"a": ["\ud800"]}, "a.0: it has a NUL or half a character"),
        (json.loads('{"a":' + "[" * 200 + "]" * 200 + "}"), "a: it is nested deeper than 64"),
    ],
)
def test_what_cannot_be_stored_is_refused(value: Any, said: str) -> None:
    """The message begins with the field."""
    with pytest.raises(ValueError, match=said):
        check_readable(value)
