"""The WebSocket of a job: its status, its steps and its end as JSON."""

import asyncio
from contextlib import aclosing, suppress

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from flows.jobs.service.board import JobStatus
from flows.jobs.service.feed import Feed
from flows.jobs.service.problems import Problem
from flows.jobs.service.services import Used

router = APIRouter()

NORMAL, TRY_AGAIN_LATER = 1000, 1013


@router.websocket("/ws/{job_id}")
async def follow(websocket: WebSocket, job_id: str, service: Used) -> None:
    """Send what happens in a job from its beginning until it ends."""
    known = await service.board.status(job_id)
    await websocket.accept()
    sending = asyncio.create_task(_send(websocket, service.feed, known))
    gone = asyncio.create_task(_until_gone(websocket))
    try:
        await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (sending, gone):
            task.cancel()
        await asyncio.gather(sending, gone, return_exceptions=True)


async def _send(websocket: WebSocket, feed: Feed, known: JobStatus) -> None:
    with suppress(WebSocketDisconnect):
        try:
            async with aclosing(feed.events(known)) as events:
                async for event in events:
                    await websocket.send_json(event)
        except Problem as problem:
            await websocket.close(TRY_AGAIN_LATER, str(problem))
        else:
            await websocket.close(NORMAL)


async def _until_gone(websocket: WebSocket) -> None:
    """Return when the client has closed the socket. What it says is of no interest."""
    with suppress(WebSocketDisconnect):
        while True:
            await websocket.receive_text()
