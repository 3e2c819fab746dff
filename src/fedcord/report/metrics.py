"""The rounds of a run, as `metrics.jsonl` has them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedcord.core.errors import CheckpointError
from fedcord.report.fields import RERUN, Fields, read_text
from fedcord.report.measured import read_values


@dataclass(frozen=True)
class RoundMetrics:
    """One line of `metrics.jsonl`.

    Attributes:
        round: from 1.
        accuracy: None in rounds without evaluation.
        bytes_up: from all clients.
        bytes_down: to all clients.
        seconds: of the round.
        refused: for every update that was not accepted, why.
        missing: by client, why its answer did not count.
        events: what else went wrong between the server and nodes.
        train_loss: mean over clients; None where they report none, infinite where it was not a
            finite number.
        notes: what the algorithm observed.
        values: by name, every metric that the round measured.
        lambda_raw: strength of alignment by client; empty for methods without.
        server: by name, what the algorithm measured at the server; empty for most.
        is_probe: whether it only looked into the local training of the round to come.
        compute: passes forward and twice those backward, over all clients who told them.
    """

    round: int
    accuracy: float | None
    bytes_up: int
    bytes_down: int
    seconds: float
    refused: tuple[str, ...] = ()
    train_loss: float | None = None
    notes: tuple[str, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)
    lambda_raw: Mapping[int, float] = field(default_factory=dict)
    server: Mapping[str, float] = field(default_factory=dict)
    is_probe: bool = False
    missing: Mapping[int, str] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    compute: int = 0


def read_metrics(path: Path, *, is_finished: bool, rounds: int | None) -> tuple[RoundMetrics, ...]:
    """All rounds of a run, in order."""
    if not path.exists() and not is_finished:
        return ()
    lines = read_text(path).splitlines()
    by_round: dict[int, RoundMetrics] = {}
    for number, line in enumerate(lines, start=1):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines) and not is_finished:
                break  # the line a killed run was writing
            raise CheckpointError(f"{path}, line {number}, is not JSON; {RERUN}.") from error
        if not isinstance(values, dict):
            raise CheckpointError(f"{path}, line {number}, is not a JSON object; {RERUN}.")
        reader = Fields(path, values)
        # a resumed run repeats the rounds after its checkpoint: the later line counts
        by_round[reader.whole("round")] = RoundMetrics(
            round=reader.whole("round"),
            accuracy=reader.share_or_none("accuracy"),
            bytes_up=reader.whole("bytes_up"),
            bytes_down=reader.whole("bytes_down"),
            seconds=reader.number("seconds"),
            refused=tuple(map(str, reader.entries("refused"))),
            train_loss=_train_loss(reader),
            notes=reader.texts("notes"),
            values=read_values(Fields(path, {**values, "log_loss": values.get("loss")})),
            lambda_raw=_lambda_raw(values.get("client_metrics"), reader),
            server=_server(reader),
            is_probe=values.get("probe") is True,
            missing=_missing(reader),
            events=reader.texts("events"),
            compute=_compute(reader),
        )
    is_whole = len(by_round) == rounds == max(by_round, default=0) and 0 not in by_round
    if rounds is not None and not is_whole:
        raise CheckpointError(
            f"{path} does not hold the {rounds} rounds of the finished run beside it; {RERUN}."
        )
    return tuple(by_round[round_] for round_ in sorted(by_round))


def _server(reader: Fields) -> dict[str, float]:
    inner = Fields(reader.path, reader.table("server_metrics"))
    found = {str(name): inner.number_or_none(name) for name in inner.values}
    return {name: number for name, number in found.items() if number is not None}


def _missing(reader: Fields) -> dict[int, str]:
    try:
        return {int(client): str(why) for client, why in reader.table("missing").items()}
    except ValueError as error:
        raise reader.wrong("missing") from error


def _compute(reader: Fields) -> int:
    total = 0
    for passes in reader.table("took").values():
        is_pair = isinstance(passes, list) and [type(own) for own in passes] == [int, int]
        if not is_pair or min(passes) < 0:
            raise reader.wrong("took")
        total += passes[0] + 2 * passes[1]
    return total


def _train_loss(reader: Fields) -> float | None:
    if "train_loss" not in reader.values:
        return None
    loss = reader.number_or_none("train_loss")
    return math.inf if loss is None else loss


def _lambda_raw(client_metrics: object, reader: Fields) -> dict[int, float]:
    """What clients said of their strength of alignment."""
    if not isinstance(client_metrics, dict):
        return {}
    try:
        return {
            int(client): float(values["lambda_raw"])
            for client, values in client_metrics.items()
            if "lambda_raw" in values
        }
    except (TypeError, ValueError, OverflowError) as error:
        raise reader.wrong("client_metrics") from error
