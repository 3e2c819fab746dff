"""Three hospitals with tables of their own, and a server that has none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.core.examples import ClientData, Examples
from fedcord.data.facts import Stated
from fedcord.data.formats.images import channel_statistics
from fedcord.data.standardise import standardisation
from fedcord.engine.patience import Patience
from fedcord.engine.requests import unpack_replies
from fedcord.engine.rounds import RoundRecord
from fedcord.experiment import run as run_module
from fedcord.experiment import terms as terms_module
from fedcord.experiment.compare import make_study
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from fedcord.experiment.study_runs import run_study
from fedcord.experiment.survey import survey
from fedcord.report.build import build_report
from fedcord.report.leaderboard import leaderboard
from fedcord.report.load import load_run, load_runs
from fedcord.site.own_data import read_site
from fedcord.site.site_file import load_site
from tests.site.in_process import Hospitals, own_table

SETTINGS: dict[str, Any] = {"dataset": "sites:tumours", "clients": 3, "validation": 0.2}


def config(algorithm: str = "fedavg", **more: Any) -> RunConfig:
    settings = {**SETTINGS, "algorithm": algorithm, **more}
    if algorithm == "fedavg":
        settings = {"rounds": 2, "params": {"local": {"epochs": 1}}, **settings}
    return load_config(settings)


def hospitals(folder: Path, count: int = 3) -> Hospitals:
    return Hospitals({20 + k: own_table(folder, k) for k in range(count)})


def test_a_run_over_three_files_is_a_run_folder(tmp_path: Path) -> None:
    there = hospitals(tmp_path)
    result = run(config(), Place(tmp_path / "run"), sites=there.sites())
    assert result["accuracy"] > 0.9
    assert result["accuracy_on"] == "clients' own test parts"
    assert len(result["client_accuracy"]) == 3
    read = load_run(tmp_path / "run")
    assert read.partition is not None
    assert read.partition.client_names == ("hospital 0", "hospital 1", "hospital 2")
    recorded = json.loads((tmp_path / "run" / "partition.json").read_text())
    assert recorded["counts"] == [None, None, None]  # nobody agreed to share them
    assert recorded["indices"] == []
    assert recorded["sites"]["1"]["train"] == 64  # of 100, a fifth each to test and validation
    assert build_report(tmp_path / "run").html.exists()


def test_constants_have_the_bits_of_a_simulation_over_the_same_parts(tmp_path: Path) -> None:
    there = hospitals(tmp_path)
    facts = survey(config(), there.sites(), Patience())
    files = [load_site(there.files[20 + k]) for k in range(3)]
    parts = [read_site(site, config()).client(site.client).train for site in files]
    expected = standardisation([part.inputs.numpy() for part in parts])
    assert (facts.mean, facts.std) == expected
    assert facts.class_names == ("benign", "malignant")
    together = np.concatenate([part.inputs.numpy() for part in parts]).astype(np.float64)
    np.testing.assert_allclose(facts.mean, together.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(facts.std, together.std(axis=0), rtol=1e-9)


def test_a_survey_sends_sums_and_no_example(tmp_path: Path) -> None:
    there = hospitals(tmp_path)
    survey(config(), there.sites(), Patience())
    assert len(there.sent) == 6  # two questions to each
    for _, answer in there.sent:
        (reply,) = unpack_replies(answer)  # type: ignore[misc]
        assert {name: tuple(t.shape) for name, t in reply.tensors.items()} in (
            {"first": (6,)},
            {"second": (6,)},
        )
        assert set(reply.values) == {"client", "name", "count", "facts"}


def test_classes_are_numbered_alike_wherever_some_are_missing(tmp_path: Path) -> None:
    files = {
        k: own_table(tmp_path, k, classes)
        for k, classes in enumerate([("benign", "melanoma"), ("melanoma",), ("benign", "nevus")])
    }
    there = Hospitals(files)
    facts = survey(config(), there.sites(), Patience())
    assert facts.class_names == ("benign", "melanoma", "nevus")
    only = read_site(load_site(files[1]), config()).agreed(facts)
    assert set(only.client(1).train.labels.tolist()) == {1}
    last = read_site(load_site(files[2]), config()).agreed(facts)
    assert set(last.client(2).train.labels.tolist()) == {0, 2}
    assert run(config(), Place(tmp_path / "run"), sites=there.sites())["clients"] == 3


def test_a_site_that_does_not_fit_is_refused_by_name(tmp_path: Path) -> None:
    there = hospitals(tmp_path, 2)
    there.files[22] = own_table(tmp_path, 2, ("benign", "unclear"))
    stated = Stated(class_names=("benign", "malignant"))
    why = r"client 'hospital 2' \(2\) does not fit: class 'unclear' is not among the classes"
    with pytest.raises(ConfigError, match=why):
        run(config(), Place(tmp_path / "run"), sites=there.sites(stated))
    assert not (tmp_path / "run").exists()
    patience = Patience(quorum=0.6)
    run(config(), Place(tmp_path / "run", patience=patience), sites=there.sites(stated))
    first = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert any("node 22 was refused: client 'hospital 2' (2)" in event for event in first["events"])
    # and it never received a tensor
    assert all(node != 22 or b"weight" not in answer for node, answer in there.sent)


def test_other_shapes_are_told_before_the_run(tmp_path: Path) -> None:
    there = hospitals(tmp_path, 2)
    there.files[22] = own_table(tmp_path, 2, columns=7)
    with pytest.raises(ConfigError, match=r"client 'hospital 2' \(2\) has input shape \(7,\) and"):
        run(config(), Place(tmp_path / "run"), sites=there.sites())


def test_a_site_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = hospitals(tmp_path)
    sites = there.sites()
    facts = survey(config(), sites, Patience())
    monkeypatch.setattr(terms_module, "__version__", "0.0.1")
    with pytest.raises(ConfigError, match=r"the server has fedcord .* and this site 0\.0\.1"):
        survey(config(), sites, Patience())
    assert facts.kind == "vector"


def test_memory_stays_at_the_site(tmp_path: Path) -> None:
    there = hospitals(tmp_path)
    result = run(config("fedhip"), Place(tmp_path / "run"), sites=there.sites())
    assert not (tmp_path / "run" / "personal.safetensors").exists()
    assert len(there.memories) == 3
    for (folder, _), memory in there.memories.items():
        client = int(folder.parent.name.removeprefix("hospital-"))
        assert memory.newest_step(client) == result["rounds"]  # after the last round
    assert result["client_accuracy_mean"] > 0.9


def test_a_killed_server_goes_on_with_what_sites_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config("fedproto", rounds=4, params={"local": {"epochs": 1}})
    there = hospitals(tmp_path)
    whole = run(settings, Place(tmp_path / "whole"), sites=there.sites())
    rounds = 0

    def stop(*arguments: Any) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 2:
            raise OSError("killed")

    place = Place(tmp_path / "run")
    with pytest.raises(OSError, match="killed"):
        run(settings, place, run_module.Progress(round=stop), sites=there.sites())
    asked = len(there.sent)
    gone = run(settings, Place(tmp_path / "run", resume=True), sites=there.sites())
    assert len(there.sent) - asked < asked + 20  # not from the beginning
    same = ("state_hash", "accuracy", "client_accuracy")
    assert {k: gone[k] for k in same} == {k: whole[k] for k in same}


def test_changed_data_is_noticed_by_name(tmp_path: Path) -> None:
    there = hospitals(tmp_path)

    def stop(*arguments: Any) -> None:
        raise OSError("killed")

    with pytest.raises(OSError, match="killed"):
        run(config(), Place(tmp_path / "run"), run_module.Progress(round=stop), sites=there.sites())
    path = tmp_path / "hospital-1" / "cases.npz"
    cases = dict(np.load(path))
    cases["x"][0] += 1
    np.savez(path, **cases)
    with pytest.raises(CheckpointError, match=r"the data of client .* is not what it was"):
        run(config(), Place(tmp_path / "run", resume=True), sites=there.sites())


def test_a_site_that_was_absent_gets_its_model_when_it_is_back(tmp_path: Path) -> None:
    there = hospitals(tmp_path)
    whole = run(config("fedhip"), Place(tmp_path / "whole"), sites=there.sites())

    def leave(record: object) -> None:
        there.handlers.pop(21, None)  # after the last round, before personal models are made

    place = Place(tmp_path / "run")
    result = run(config("fedhip"), place, run_module.Progress(round=leave), sites=there.sites())
    assert result["awaited"] == {"1": "absent: nobody is there"}
    assert result["client_accuracy"][1] is None
    again = Place(tmp_path / "run", resume=True)
    # still away: nothing changes
    gone = there.files.pop(21)
    patience = Patience(quorum=0.5)
    still = run(
        config("fedhip"),
        Place(tmp_path / "run", resume=True, patience=patience),
        sites=there.sites(),
    )
    assert still["awaited"] == result["awaited"]
    there.files[31] = gone  # back, under another address
    back = run(config("fedhip"), again, sites=there.sites())
    assert "awaited" not in back
    same = ("client_accuracy", "validation_accuracy", "accuracy")
    assert {k: back[k] for k in same} == {k: whole[k] for k in same}
    assert load_run(tmp_path / "run").is_finished
    assert run(config("fedhip"), again, sites=there.sites()) == back  # nothing left to do


def test_who_leaves_is_named_and_who_comes_late_is_in(tmp_path: Path) -> None:
    there = hospitals(tmp_path)
    late = there.files.pop(22)
    settings = config(rounds=4)

    def watch(record: RoundRecord) -> None:
        if record.round == 1:
            there.files[22] = late
            there.handlers[22] = there.handler(22)
        if record.round == 2:
            there.handlers.pop(20)
        if record.round == 3:  # back, under another address
            there.files[30] = there.files[20]
            there.handlers[30] = there.handler(30)

    place = Place(tmp_path / "run", patience=Patience(quorum=0.6))
    result = run(settings, place, run_module.Progress(round=watch), sites=there.sites())
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["clients"] for line in lines] == [2, 3, 3, 3]
    absent = {"0": "absent: nobody is there"}
    assert [line.get("missing") for line in lines] == [None, None, absent, None]
    assert "awaited" not in result
    assert None not in result["client_accuracy"]


def test_a_study_over_sites_is_paired_and_reported(tmp_path: Path) -> None:
    there = hospitals(tmp_path)
    settings = {**SETTINGS, "rounds": 2, "params": {}}
    study = make_study(["afl", "fedhip"], settings, 2, name="tumours")
    place = Place(tmp_path / "study")
    assert run_study(study, tmp_path / "study", place, sites=there.sites()) == []
    board = leaderboard(load_runs(tmp_path / "study"))
    assert {row.name for row in board.rows} == {"afl", "fedhip"}
    assert len(board.seeds) == 2


def test_counts_of_classes_pass_only_where_a_site_shares_them(tmp_path: Path) -> None:
    there = hospitals(tmp_path, 2)
    there.files[21].write_text(there.files[21].read_text() + "share_class_counts = true\n")
    settings = config(clients=2)
    run(settings, Place(tmp_path / "run"), sites=there.sites())
    recorded = json.loads((tmp_path / "run" / "partition.json").read_text())
    assert recorded["counts"] == [None, [35, 29]]
    tested = {20: [], 21: []}  # type: dict[int, list[Any]]
    for node, answer in there.sent:
        (reply,) = unpack_replies(answer)  # type: ignore[misc]
        if reply.verb == "evaluate":
            tested[node].append(reply.values["by_class"])
    assert not any(tested[20])
    assert all(tested[21])
    first = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert "balanced_accuracy" not in first  # not everybody says


@pytest.mark.parametrize(
    ("entry", "sizes"),
    [
        ("", (64, 16, 20)),  # the fifth that loading holds out
        ("test = 0.5", (30, 20, 50)),
        ('test = "npz:../hospital-0/cases.npz"', (80, 20, 80)),
    ],
)
def test_what_a_site_tests_on(tmp_path: Path, entry: str, sizes: tuple[int, ...]) -> None:
    own_table(tmp_path, 0)
    path = own_table(tmp_path, 1)
    path.write_text(path.read_text() + entry)
    data = read_site(load_site(path), config())
    assert data.sizes(1) == sizes
    rows = torch.cat([part.inputs for part in _parts(data.client(1))])
    assert len(rows.unique(dim=0)) == len(rows)  # nothing is tested that was trained on


def _parts(data: ClientData) -> tuple[Examples, ...]:
    return data.train, data.validation, data.test


def test_pictures_of_all_sites_are_prepared_by_common_constants(tmp_path: Path) -> None:
    files, pictures = {}, []
    for client in range(2):
        rng = np.random.default_rng(client)
        x = rng.integers(0, 100 + 100 * client, size=(60, 8, 8, 3), dtype=np.uint8)
        (tmp_path / str(client)).mkdir()
        np.savez(tmp_path / str(client) / "x.npz", x=x, y=np.arange(60) % 3)
        files[client] = tmp_path / str(client) / "site.toml"
        files[client].write_text(f'client = {client}\ndata = "npz:x.npz"\n')
        site = load_site(files[client])
        pictures.append(read_site(site, config(clients=2)).client(client).train.inputs.numpy())
    facts = survey(config(clients=2), Hospitals(files).sites(), Patience())
    assert (facts.mean, facts.std) == channel_statistics(np.concatenate(pictures))


def test_a_method_of_ones_own_must_be_trusted_by_the_site(tmp_path: Path) -> None:
    there = hospitals(tmp_path)
    name = "fedcord.algorithms.averaging.fedavg:FedAvg"
    with pytest.raises(ConfigError, match=r"add it to algorithms in site\.toml"):
        survey(config(name, rounds=1), there.sites(), Patience())
    for path in there.files.values():
        path.write_text(path.read_text() + f'algorithms = ["{name}"]\n')
    assert survey(config(name, rounds=1), there.sites(), Patience()).kind == "vector"


def test_data_at_sites_cannot_be_simulated(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="lies at sites and cannot be simulated"):
        run(config(), Place(tmp_path / "run"))
    with pytest.raises(ConfigError, match="partition = iid: the data of 'sites:tumours' lies at"):
        config(partition="iid")
    assert not (tmp_path / "run").exists()
