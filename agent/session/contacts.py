"""One contact of an attempt with the outside world, before it happens."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.models.protocol import Model, ModelRequest
from agent.session.steps import Result, StepKind, canonical, digest

_LOWER_OUTPUT_LIMITS = (8_192, 4_096, 2_048)
"""Output limits of a call that is not allowed to cost more, in tokens.

With them, a budget is used up to a few cents. Below the last, most replies would be cut off.
"""


Resend = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Contact:
    """One contact with the outside world, before it happens."""

    kind: StepKind
    digest: str
    """SHA-256 of the whole request as canonical JSON."""
    kept: dict[str, Any]
    """The part of the request that is recorded."""
    run: Callable[[float], Awaitable[Result]]
    """Executes the request. Takes the remaining seconds."""
    resending: Callable[[Resend], "Contact"] | None = None
    """Returns the same model call with a reservation before it sends its request again."""
    ceiling_usd: Callable[[], float | None] = lambda: 0.0
    inputs: str | None = None
    """Digest of what else decides the result; None if that is unknown."""
    cheaper: Callable[[], Sequence["Contact"]] = lambda: ()
    """Returns the same request with lower limits on its cost, the highest first."""
    in_workspace: bool = False
    """True if it may change the workspace, so that it has to be alone there."""
    in_turn: bool = False
    """True if it only looks at the workspace, between the steps asked for before and after it."""
    ends_with_turn: bool = False
    """True if it is cut off when a person ends the turn, and the arm handles that."""
    is_foreign: bool = False
    """True if another program made the request, and decides what to do if it is refused."""

    def with_resend(self, reserve: Resend) -> "Contact":
        """Return the same contact. A model call awaits `reserve` before it sends again."""
        return self if self.resending is None else self.resending(reserve)

    def dearest_first(self) -> Iterator["Contact"]:
        """Yield this request, and then the cheaper ones, which most calls do not need."""
        yield self
        yield from self.cheaper()


def in_workspace(
    kind: StepKind,
    request: dict[str, Any],
    run: Callable[[float], Awaitable[Result]],
    inputs: str | None,
    *,
    ends_with_turn: bool = False,
) -> Contact:
    """Return work in the workspace, whose request is recorded whole."""
    return Contact(
        kind,
        digest(canonical(request)),
        request,
        run,
        inputs=inputs,
        in_workspace=True,
        ends_with_turn=ends_with_turn,
    )


def contact(
    model: Model,
    request: ModelRequest,
    digest: str,
    kept: dict[str, Any],
    inputs: str | None = None,
) -> Contact:
    """Return a model call. The limit on its output is no part of the record."""

    def limited(max_tokens: int | None, before_resend: Resend | None = None) -> Contact:
        sent = replace(request, max_tokens=max_tokens, before_resend=before_resend)

        async def answer(left_s: float) -> Result:
            async with asyncio.timeout(left_s if left_s < float("inf") else None):
                return await model.complete(sent)

        return Contact(
            "model",
            digest,
            kept,
            answer,
            lambda resend: limited(max_tokens, resend),
            lambda: model.ceiling_usd(sent),
            inputs,
            lambda: [limited(tokens) for tokens in _LOWER_OUTPUT_LIMITS],
            is_foreign=request.foreign is not None,
        )

    return limited(request.max_tokens)
