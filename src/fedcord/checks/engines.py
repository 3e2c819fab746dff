"""All of a run is in its state: it can be interrupted, and any engine gives the same bits."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fedcord.checks.compare import difference
from fedcord.checks.subject import Outcome, Subject
from fedcord.engine.transports.processes import ProcessesTransport
from fedcord.engine.transports.wire import WireTransport
from fedcord.store.checkpoint import Checkpoint, load_newest, save_checkpoint

CONFIG_HASH = "checks"


def resume(subject: Subject) -> Iterator[str]:
    """A run continued from a checkpoint on disk ends as the uninterrupted one does."""
    with tempfile.TemporaryDirectory(prefix="fedcord-contract-") as folder:
        rounds_said: list[int] = []

        def save(checkpoint: Checkpoint) -> None:
            place = Path(folder) / str(len(rounds_said))  # apart, for only the newest are kept
            place.mkdir()
            save_checkpoint(place, checkpoint, CONFIG_HASH)
            rounds_said.append(checkpoint.state.round)

        save(Checkpoint(subject.fresh().init(subject.env()), {}))
        wanted = subject.run(on_round=save)
        if rounds_said != list(range(subject.num_rounds + 1)):
            yield (
                f"the states before and after {subject.num_rounds} rounds say {rounds_said} rounds "
                "are done; return state.next(...) from aggregate."
            )
            return
        for done in rounds_said:
            loaded = load_newest(Path(folder) / str(done), CONFIG_HASH)
            assert loaded is not None
            found = subject.run(start=loaded)
            if done == subject.num_rounds and found.visits:
                yield f"a finished run visited {found.visits} clients when it was resumed."
            gap = difference(found.checkpoint.tensors(), wanted.checkpoint.tensors())
            if gap is not None:
                yield (
                    f"continued from the checkpoint after {done} of {subject.num_rounds} rounds "
                    f"the run ends elsewhere: {gap}; keep everything in ServerState and memory."
                )


def engines_agree(subject: Subject) -> Iterator[str]:
    """The engine that sends only bytes and rebuilds everything gives the bits of the plain one."""
    wanted = subject.run()
    blueprint, population = subject.blueprint, subject.tiny.population
    blueprint.check_importable()
    by_wire = subject.run(transport=lambda _: WireTransport.rebuilding(blueprint, population))
    yield from _disagreement("wire", by_wire, wanted)
    if subject.with_processes:
        with contextlib.closing(ProcessesTransport(blueprint, population, workers=2)) as workers:
            found = subject.run(transport=lambda _: workers)
        yield from _disagreement("processes", found, wanted)


def _disagreement(engine: str, found: Outcome, wanted: Outcome) -> Iterator[str]:
    gap = difference(found.checkpoint.tensors(), wanted.checkpoint.tensors())
    if gap is not None:
        yield (
            f"engine '{engine}' and engine 'sequential' end in other states: {gap}; a client may "
            "know only shared, memory, data, env and the algorithm's parameters."
        )
    for ours, theirs in zip(found.records, wanted.records, strict=True):
        if (ours.refused, ours.bytes_up, ours.evaluation) != (
            theirs.refused,
            theirs.bytes_up,
            theirs.evaluation,
        ):
            yield (
                f"engine '{engine}' and engine 'sequential' report other results of round "
                f"{theirs.round - 1}."
            )
    if found.own_tests != wanted.own_tests:
        yield f"engine '{engine}' and engine 'sequential' test clients' own models differently."
