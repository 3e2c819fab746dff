"""What runs cost by rules that are the same for every method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedcord.engine.requests import TOOK, unpack
from fedcord.engine.reuse import CHECKSUM
from fedcord.experiment.records import cost_record
from fedcord.experiment.run import Place, run
from fedcord.store.run_folder import RunFolder
from tests.faults.small_runs import config, quick

__all__ = ["quick"]  # a fixture

pytestmark = pytest.mark.usefixtures("quick")
MLP = 4 * (4 * 2 + 2 + 2 * 3 + 3)
"""Bytes of a network of two hidden units for four features and three classes."""
SIZE = 39
"""Training examples of all clients."""


def cpu_seconds(path: Path) -> float:
    """That a file of work says it took."""
    header, _ = unpack(path.read_bytes()[:-CHECKSUM])
    return float(header["cpu_seconds"])


def done(tmp_path: Path, **settings: Any) -> dict[str, Any]:
    return run(config(model=("mlp:2",), **settings), Place(tmp_path / "run"))


def test_the_busiest_client_is_who_computes_most() -> None:
    """Who looks at more examples without learning from them has more passes and less to do."""
    took = {"0": [100, 0], "1": [60, 39]}
    line = {"clients": 2, "refused": [], "bytes_up": 0, "bytes_down": 0, TOOK: took}
    work = cost_record(config(), [line], {}, 0, {})["work"]
    assert (work["most_forward"], work["most_backward"]) == (60, 39)


def test_averaging_need_not_send_the_first_model_but_has_to_deliver_the_last(
    tmp_path: Path,
) -> None:
    result = done(tmp_path, algorithm="fedavg", rounds=3)
    assert result["bytes_down"] == 3 * 3 * MLP
    complete = result["complete_traffic"]
    assert complete == {
        "up": result["bytes_up"],
        "down": 3 * 3 * MLP,
        "first_weights": 3 * MLP,
        "delivery": 3 * MLP,
    }
    assert result["work"]["forward"] == result["work"]["backward"] == 3 * SIZE
    assert result["work"]["most_forward"] == 3 * SIZE // 3
    assert result["work"]["cpu_seconds"] > 0


def test_an_ensemble_is_delivered_whole(tmp_path: Path) -> None:
    params = {"local": {"epochs": 4}}
    result = done(tmp_path, algorithm="ensemble", params=params)
    complete = result["complete_traffic"]
    assert complete["first_weights"] == 3 * MLP
    assert complete["down"] == complete["delivery"]
    assert 3 * 3 * MLP <= complete["delivery"] < 3 * 3 * MLP + 1000  # and who they are of
    assert result["work"]["backward"] == 4 * SIZE


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("deep-head", {"rounds": 2}),
        ("exact-head", {"rounds": 2}),
        ("fedproto-oneshot", {}),
        ("fens", {"params": {"aggregator_rounds": 3}}),
    ],
)
def test_clients_that_are_visited_together_have_passes_of_their_own(
    algorithm: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    work = done(tmp_path, algorithm=algorithm, **settings)["work"]
    assert work["forward"] > work["backward"] > 0  # they look at examples after training
    assert work["most_forward"] == work["forward"] // 3  # clients are of one size here


def test_what_clients_were_sent_on_the_way_is_not_delivered_again(tmp_path: Path) -> None:
    """Encoders travel once, and the head's look through each of them counts."""
    result = done(tmp_path, algorithm="accord", params={"local": {"epochs": 2, "batch_size": 8}})
    complete = result["complete_traffic"]
    assert complete["first_weights"] == 0
    assert complete["down"] == result["bytes_down"] + complete["delivery"]
    head = 3 * 8 * (3 * 2 + 1) * 3
    assert 0 < complete["delivery"] <= 2 * head
    work = result["work"]
    assert work["backward"] == 2 * SIZE
    # each of three clients looks through three encoders, at batches that are filled up to 64
    assert work["forward"] == work["backward"] + 3 * 3 * 64


def test_a_run_that_is_gone_on_with_costs_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config(model=("mlp:2",), algorithm="fens", params={"aggregator_rounds": 3})
    whole = run(settings, Place(tmp_path / "whole"))
    append, lines = RunFolder.append_metrics, list[dict[str, Any]]()

    def stop_after_three(folder: RunFolder, line: dict[str, Any], **how: bool) -> None:
        if len(lines) == 3:
            raise OSError("pulled the plug")
        lines.append(line)
        append(folder, line, **how)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "append_metrics", stop_after_three)
        with pytest.raises(OSError, match="pulled the plug"):
            run(settings, Place(tmp_path / "stopped"))
    resumed = run(settings, Place(tmp_path / "stopped", resume=True))
    assert resumed["complete_traffic"] == whole["complete_traffic"]
    assert resumed["work"]["forward"] == whole["work"]["forward"]
    # the models went to everybody once, and only the aggregator is new at the end
    aggregator = 4 * (12 * 10 + 3 * 13)
    assert whole["complete_traffic"]["delivery"] == 3 * aggregator


def test_work_that_is_taken_from_before_costs_what_it_did(tmp_path: Path) -> None:
    settings = config(model=("mlp:2",), algorithm="ensemble", params={"local": {"epochs": 2}})
    first, again = (
        run(settings, Place(tmp_path / name, reuse=tmp_path / "work")) for name in ("a", "b")
    )
    for name in ("forward", "backward", "most_forward", "most_backward"):
        assert first["work"][name] == again["work"][name] > 0
    assert first["work"]["forward"] == 2 * SIZE
    done_before = sum(cpu_seconds(path) for path in (tmp_path / "work").iterdir())
    assert again["work"]["cpu_seconds"] > 0.9 * done_before > 0


def test_making_own_models_is_work_and_replaces_the_delivery(tmp_path: Path) -> None:
    params = {"finetune_epochs": 2}
    result = done(tmp_path, algorithm="fedavg", rounds=2, params=params)
    assert result["traffic"]["personalisation"]["down"] == 3 * MLP
    assert result["complete_traffic"]["down"] == 2 * 3 * MLP
    assert result["work"]["backward"] == (2 + 2) * SIZE
