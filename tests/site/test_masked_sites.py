"""Masked rounds over sites: every message finds a new node; secrets lie in the site's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fedcord.core.errors import ProtocolError
from fedcord.engine.federation import Patience
from fedcord.engine.requests import MASKING, unpack_call, unpack_replies
from fedcord.engine.transports.wire import Handler
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from fedcord.site.in_process import sites_here
from fedcord.store.checkpoint import load_newest
from fedcord.store.run_folder import RunFolder
from tests.site.in_process import Hospitals, own_table, rehearsal

LENIENT = Patience(quorum=0.5)


def config(**more: Any) -> RunConfig:
    settings = {"algorithm": "afl", "dataset": "sites:tumours", "clients": 3, "secure": 0.6}
    return load_config({**settings, **more})


def sums(**more: Any) -> RunConfig:
    """Of a head whose equations magnify rounding little."""
    return config(params={"ridge": 0.5, "features": {"width": 24}}, **more)


class Leaving(Hospitals):
    """Sites of which some are gone once they have answered a verb."""

    def __init__(self, files: Mapping[int, Path], after: Mapping[int, str]) -> None:
        super().__init__(files)
        self._after = after

    def handler(self, node: int) -> Handler:
        answer = super().handler(node)

        def leaving(call: bytes) -> bytes:
            if self._after.get(node) == unpack_call(call)[0].verb:
                del self.handlers[node]
            return answer(call)

        return leaving


@pytest.mark.parametrize("algorithm", ["afl", "fedavg", "accord"])
def test_sites_give_the_bits_of_the_sequential_engine(algorithm: str, tmp_path: Path) -> None:
    settings = {"dataset": "digits", "partition": "dirichlet:0.5", "subset": 300, "clients": 4}
    rounds = {"rounds": 2} if algorithm == "fedavg" else {}
    if algorithm == "accord":
        settings["params"] = {"local": {"epochs": 1}}
    what = config(algorithm=algorithm, **settings, **rounds)
    simulated = run(what, Place(tmp_path / "simulated"))
    files = [rehearsal(tmp_path, k) for k in range(4)]
    deployed = run(what, Place(tmp_path / "deployed"), sites=sites_here(files))
    for name in ("state_hash", "accuracy", "bytes_up", "bytes_down"):
        assert deployed[name] == simulated[name], name
    kept = sorted(tmp_path.glob("site-*/fedcord-site/*/masked-*.json"))
    assert len(kept) == 4
    for path in kept:
        assert path.stat().st_mode & 0o777 == 0o600
        session = json.loads(path.read_text())
        assert (session["mask_secret"], session["seed"]) == ("", "")  # the round is over


def test_a_site_that_is_lost_after_its_commitment_is_named_and_not_in_the_sum(
    tmp_path: Path,
) -> None:
    files = {20 + k: own_table(tmp_path, k) for k in range(3)}
    out, place = tmp_path / "masked", Place(tmp_path / "masked", patience=LENIENT)
    there = Leaving(files, {21: "share"})
    run(sums(), place, sites=there.sites())
    (line,) = RunFolder(out).read_metrics()
    assert line["missing"] == {"1": "absent: nobody is there"}
    masked = load_newest(RunFolder(out).checkpoints, sums().hash)
    # the same in the open: its message is lost
    plain = sums(secure=None)
    there = Leaving(files, {21: "hello"})
    run(plain, Place(tmp_path / "open", patience=LENIENT), sites=there.sites())
    wanted = load_newest(RunFolder(tmp_path / "open").checkpoints, plain.hash)
    assert masked is not None
    assert wanted is not None
    for state in (masked.state, wanted.state):
        assert state.private["ledger.client"].tolist() == [0, 2]
    for name in ("sum.gram", "sum.moment", "sum.class_count", "sum.target_square"):
        gap = (masked.state.private[name] - wanted.state.private[name]).abs().max()
        assert float(gap) <= 1e-9
    gap = (masked.state.result["head.weight"] - wanted.state.result["head.weight"]).abs().max()
    assert float(gap) <= 1e-9


def test_with_too_few_left_nothing_is_opened_and_the_first_is_named(tmp_path: Path) -> None:
    files = {20 + k: own_table(tmp_path, k) for k in range(3)}
    there = Leaving(files, {21: "share", 22: "share"})
    place = Place(tmp_path / "run", patience=Patience(quorum=0.1))
    words = r"1 of 3 clients sent their masked update, fewer than the threshold of 2 .*'hospital 1'"
    with pytest.raises(ProtocolError, match=words):
        run(config(), place, sites=there.sites())
    answered = set()
    for _, answer in there.sent:
        replies = unpack_replies(answer)
        assert isinstance(replies, list), "nobody is asked about a client that lives elsewhere"
        answered |= {reply.verb for reply in replies}
    assert answered.intersection(MASKING) == {"advertise", "share", "mask"}
