"""Processes of their own for workers, forked off one that has imported everything already."""

import multiprocessing

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    ["tests.durability.crashing", "tests.durability.pausing", "tests.durability.spending"]
)
