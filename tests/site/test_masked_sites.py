"""Masked rounds over sites: every message finds a new node; secrets lie in the site's folder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.data.facts import Stated
from fedcord.engine.patience import Patience
from fedcord.engine.requests import (
    MASKING,
    Parcel,
    Request,
    Verb,
    pack_call,
    unpack_call,
    unpack_replies,
)
from fedcord.engine.transports.wire import Handler
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from fedcord.experiment.terms import Terms
from fedcord.secure.site import Site
from fedcord.site.check import expected_facts
from fedcord.site.in_process import sites_here
from fedcord.site.own_data import read_site
from fedcord.site.site_file import load_site
from fedcord.store.checkpoint import load_newest
from fedcord.store.run_folder import RunFolder
from tests.cli.command import fedcord
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


def _insisting(path: Path) -> Path:
    path.write_text(path.read_text() + 'secure = "required"\n')
    return path


def test_a_site_that_insists_on_masks_sends_nothing_without(tmp_path: Path) -> None:
    files = [own_table(tmp_path, k) for k in range(3)]
    _insisting(files[1])
    there = Hospitals(dict(enumerate(files)))
    words = r"'hospital 1' .1. sends no update in the open that can be masked .*add secure = 0\.6"
    open_ = config(secure=None)
    with pytest.raises(ConfigError, match=words):
        run(open_, Place(tmp_path / "open"), sites=there.sites())
    assert not any(b"gram" in answer for node, answer in there.sent if node == 1)
    lenient = Place(tmp_path / "without", patience=LENIENT)
    run(open_, lenient, sites=there.sites())  # of the others
    assert not any(b"gram" in answer for node, answer in there.sent if node == 1)
    run(config(), Place(tmp_path / "masked"), sites=there.sites())


def test_what_cannot_be_masked_is_still_sent_by_a_site_that_insists(tmp_path: Path) -> None:
    files = [_insisting(own_table(tmp_path, k)) for k in range(3)]
    ones = config(algorithm="fedproto", secure=None, rounds=1)
    run(ones, Place(tmp_path / "run"), sites=sites_here(files))


def test_the_check_at_a_site_says_that_it_insists(tmp_path: Path) -> None:
    path = _insisting(own_table(tmp_path, 0))
    words = ["site", "check", str(path), "afl", "--dataset", "sites:tumours"]
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert "sends no update in the open that can be masked" in done.stderr
    assert fedcord(*words, "--secure", "0.6", cwd=tmp_path).returncode == 0
    path.write_text(path.read_text().replace("required", "perhaps"))
    done = fedcord(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert "secure = 'perhaps': must be 'required', or be left out" in done.stderr


def test_refusals_name_the_site(tmp_path: Path) -> None:
    there = Hospitals({0: own_table(tmp_path, 0)})
    data = read_site(load_site(there.files[0]), config())
    there.reach(Terms(config(), expected_facts(data, Stated()), "run"))
    steps: tuple[Verb, ...] = ("share", "unmask")
    for verb in steps:
        call = pack_call(Request(verb, run="run"), Parcel((0,), {"session": "a"}))
        found = unpack_replies(there.handler(0)(call))
        assert isinstance(found, list)
        said = "client 'hospital 0' (0) takes part in no such masked round"
        assert str(found[0].refusal).startswith(said)
    site = Site.begin(0, "a", "hospital 0")
    for one in (site, Site.from_bytes(site.to_bytes())):
        with pytest.raises(ProtocolError, match=r"client 'hospital 0' .0. is not in the roster"):
            one.share({}, 2)
    with pytest.raises(ProtocolError, match="client 0 has not shared its secrets"):
        replace(site, name="").mask(np.zeros(1, np.uint64), [0])
