"""Masked runs of accord: the head is the same, and only rounds that need sums are masked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from fedcord.cli.main import main
from fedcord.core.contract import Env
from tests.algorithms.accord.encoders import gap, method, run
from tests.algorithms.accord.test_accord_messages import K
from tests.federation import task


@pytest.mark.parametrize("more", [{}, {"refinements": 1}, {"balanced": True}])
def test_a_masked_run_gives_the_head_of_exact_sums_in_every_bit(more: dict[str, object]) -> None:
    accord = method(wire="fixed64", personal=True, **more)
    open_, masked = (run(accord, secure=secure) for secure in (None, 0.6))
    for name, tensor in open_[0][-1].model.items():
        assert torch.equal(masked[0][-1].model[name], tensor)
    assert all(record.refused == () for record in masked[1])


def test_sums_in_floating_point_are_rounded_by_no_more_than_fixed_point_does() -> None:
    accord = method(ridge=0.5)
    open_, masked = (run(accord, secure=secure)[0][-1] for secure in (None, 0.6))
    sums = [accord.stats_of(state.private).gram for state in (open_, masked)]
    assert 0 < float((sums[0] - sums[1]).abs().max()) <= K * 2.0**-33
    assert gap(masked.result["head.weight"], open_.result["head.weight"]) <= 1e-8


def test_only_rounds_for_sums_are_masked() -> None:
    accord = method(refinements=1)
    rounds = accord.traits.rounds
    assert rounds is not None
    env = Env(task(), 0, num_rounds=rounds)
    needs = [accord.needs_only(replace(env, round=number)) for number in range(rounds)]
    assert [phase.value for phase in accord.phases] == [
        "class counts",
        "encoders",
        "sums",
        "encoders again",
        "sums",
    ]
    assert needs == [None, None, "sum", None, "sum"]
    _, records = run(accord, secure=0.6)
    assert ["unmasking" in record.traffic for record in records] == [n is not None for n in needs]


def test_a_masked_run_says_what_is_in_the_open_and_cannot_forget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    flags = ["--clients", "3", "--model", "mlp:8", "--set", "local.epochs=1"]
    assert main(["run", "accord", *flags, "--secure", "0.6", "--out", str(out)]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "Masks cover 1 of 3 rounds of accord: in round 1, 2 the server needs single" in said
    before = (out / "result.json").read_text()
    for more in ([], ["--drop-encoder"]):
        assert main(["forget", str(out), "--client", "1", *more]) == 2
        assert "its updates were masked, so that only their sum" in capsys.readouterr().err
    assert (out / "result.json").read_text() == before
