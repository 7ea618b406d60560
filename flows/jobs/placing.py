"""The place of a job's workspaces, with its image built and kept."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from agent.workspaces.protocol import Environment
from eval import job_images
from eval.base_image import connect
from eval.image_store import ImageStore
from flows.experiments.cells import Place
from flows.experiments.resources import refuse_excess
from flows.jobs.preparing import Prepared
from flows.storage.images import ImageCache, cache_folder
from flows.storage.lake import Lake


@asynccontextmanager
async def placed(prepared: Prepared, store: Lake) -> AsyncIterator[Place]:
    """Yield the place of the job's workspaces, with its image built and kept during the block."""
    request = prepared.request
    environment: Environment = "host" if prepared.recipe is None else "docker"
    await refuse_excess(request.resources, [prepared.instance], environment)
    if prepared.recipe is None:
        yield Place("host")
        return
    images = await asyncio.to_thread(ImageStore, cache_folder())
    name = prepared.instance.image
    with images.held(name):
        image_id = await asyncio.to_thread(_built, images, prepared, store)
        yield Place(
            "docker",
            image_digest=image_id,
            network=request.network,
            resources=request.resources,
        )


def _built(images: ImageStore, prepared: Prepared, store: Lake) -> str:
    assert prepared.recipe is not None
    name = prepared.instance.image
    with images.fetching(name):
        is_new = not images.find([name])
        image_id = job_images.ensure(
            connect(), prepared.mirror, prepared.row["base_commit"], prepared.recipe
        )
    if is_new:
        ImageCache(store, images, None).built(name)
    return image_id
