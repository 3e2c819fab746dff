"""Who takes part."""

from __future__ import annotations

from launch import Contender

BARE = Contender("bare loop (fused SGD)", "bare_loop", "fused")
BARE_FOREACH = Contender("bare loop (autograd.grad + foreach)", "bare_loop", "foreach")
BARE_KEPT = Contender(
    "bare loop (fused SGD), freed memory kept", "bare_loop", "fused", keeps_memory=True
)
BARE_TWO = Contender("bare loop (fused SGD), 2 threads", "bare_loop", "fused", threads=2, cores=2)
DATALOADER = Contender("bare DataLoader loop", "dataloader_loop")
SEQUENTIAL = Contender("**fedcord sequential**", "fedcord_engine", "sequential")
PROCESSES = Contender("**fedcord processes**, 2 workers", "fedcord_engine", "processes", cores=2)
PFL = Contender("pfl", "pfl_simulation", is_peer=True)
PFL_TWO = Contender("pfl, 2 threads (its default)", "pfl_simulation", "", 2, 2, True)
PFL_RUN = Contender("pfl, 2 processes (torchrun)", "pfl_simulation", "torchrun", 1, 2, True, 2)
FLOWER = Contender("Flower simulation, 2 actors", "flower_simulation", "", 1, 2, True)

CONTENDERS = (
    BARE,
    BARE_FOREACH,
    BARE_KEPT,
    BARE_TWO,
    DATALOADER,
    SEQUENTIAL,
    PROCESSES,
    PFL,
    PFL_TWO,
    PFL_RUN,
    FLOWER,
)
BARE_LOOPS = (BARE, BARE_FOREACH, BARE_KEPT)
NEIGHBOURED = (BARE_TWO, PROCESSES)
