"""Sites and tables with named columns: as simulated, or refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from fedcord.core.errors import CheckpointError, ConfigError, DataError, ProtocolError
from fedcord.data.facts import DataFacts, Stated
from fedcord.data.tables.sums import TableSums
from fedcord.engine.patience import Patience
from fedcord.engine.requests import Parcel, Request, pack_call, unpack_replies
from fedcord.experiment.build import build_experiment
from fedcord.experiment.config import RunConfig
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, Progress, run
from fedcord.experiment.survey import survey
from fedcord.experiment.terms import Terms
from fedcord.site.answering import answer_at_site
from fedcord.site.in_process import sites_here
from fedcord.site.own_data import read_site
from fedcord.site.own_table import OwnTable
from fedcord.site.site_file import load_site
from tests.site.in_process import HOSPITALS, Hospitals, own_csvs, own_table, patients

SPEC = "csv:cases.csv?target=ill&client=site"


def write(folder: Path) -> Path:
    lines = [
        f"{'ns'[n % 2]},{n * n % 17},{'ABC'[n % 3] if n % 5 else ''},{'yes' if n % 3 else 'no'}"
        for n in range(60)
    ]
    path = folder / "cases.csv"
    path.write_text("\n".join(["site,age,ward,ill", *lines]))
    return path


def site(folder: Path, client: int, more: str = "") -> Path:
    place = folder / f"site-{client}"
    place.mkdir()
    write(place)
    path = place / "site.toml"
    path.write_text(f'client = {client}\ndata = "{SPEC}"\n{more}')
    return path


def settings(dataset: str, **more: Any) -> dict[str, Any]:
    return {"algorithm": "fedavg", "dataset": dataset, "rounds": 2, "clients": 2, **more}


def test_a_rehearsal_with_a_table_has_the_bits_of_a_simulation(tmp_path: Path) -> None:
    path = write(tmp_path)
    config = load_config(settings(f"csv:{path}?target=ill&client=site", partition="natural:site"))
    simulated = run(config, Place(tmp_path / "simulated"))
    more = 'partition = "natural:site"\nclients = 2\n'
    there = Hospitals({10 + k: site(tmp_path, k, more) for k in range(2)})
    deployed = run(config, Place(tmp_path / "deployed"), sites=there.sites())
    assert deployed["state_hash"] == simulated["state_hash"]
    assert deployed["accuracy"] == simulated["accuracy"]
    assert list(deployed["per_site"].values()) == list(simulated["per_site"].values())


def of_sites(algorithm: str = "fedavg", **more: Any) -> RunConfig:
    values = settings("sites:cases", **{"clients": 3, "test": 0.0, **more})
    return load_config(values | {"algorithm": algorithm})


def surveyed(files: list[Path], stated: Stated | None = None) -> DataFacts:
    config = of_sites(clients=len(files))
    return survey(config, Hospitals(dict(enumerate(files))).sites(stated), Patience())


def test_three_files_have_the_bits_of_one_file_with_a_column_of_hospitals(tmp_path: Path) -> None:
    """Rows to test on, preparation and model: nothing is rounded otherwise."""
    frame = patients()
    frame.to_csv(tmp_path / "all.csv", index=False)
    together = load_config(
        settings(
            f"csv:{tmp_path}/all.csv?target=sick&client=hospital",
            partition="natural:hospital",
            clients=3,
            test=0.0,
        )
    )
    simulated = run(together, Place(tmp_path / "simulated"))
    files = own_csvs(tmp_path, frame)
    deployed = run(of_sites(), Place(tmp_path / "deployed"), sites=sites_here(files))
    task = json.loads((tmp_path / "deployed" / "partition.json").read_text())["task"]
    table = build_experiment(together).plan.facts.preparation
    assert table is not None
    expected = table.to_json() | {"client": ""}  # nobody names hospitals in a file of its own
    assert task["preparation"] == expected
    assert {c.name for c in table.columns} == {"age", "lab", "ward", "smoker"}  # no patient
    assert deployed["state_hash"] == simulated["state_hash"]
    assert deployed["accuracy"] == simulated["accuracy"]  # on the same rows, held by others


def test_a_survey_of_tables_sends_kinds_and_then_sums(tmp_path: Path) -> None:
    frame = patients()
    there = Hospitals(dict(enumerate(own_csvs(tmp_path, frame, "target=sick&id=patient"))))
    facts = survey(of_sites(), there.sites(), Patience())
    assert facts.preparation is not None
    assert facts.preparation.row_id == "patient"
    said = []
    for _, answer in there.sent:
        (reply,) = unpack_replies(answer)  # type: ignore[misc]
        assert not reply.tensors
        said.append(reply.values)
    kinds = {"age": "numeric", "lab": "numeric", "ward": "categorical", "smoker": "boolean"}
    for values in said[:3]:
        assert values["table"]["kinds"] == kinds
        assert "sums" not in values
    for values in said[3:]:
        assert values["sums"]["classes"] == {}  # counts of classes are shared otherwise
        assert values["sums"]["columns"].keys() == kinds.keys()
        assert values["sums"]["columns"]["age"].keys() == {"present", "missing", "total", "squares"}
    whole = b"".join(answer for _, answer in there.sent).decode("utf-8", "replace")
    assert "P001" not in whole


def test_sums_over_other_rows_than_were_told_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, honest = own_csvs(tmp_path, patients()), OwnTable.sums

    def of_fewer(self: OwnTable, kinds: Any, rows: Any) -> TableSums:
        return honest(self, kinds, rows[1:])

    monkeypatch.setattr(OwnTable, "sums", of_fewer)
    with pytest.raises(ProtocolError, match=r"client 'North' \(0\) sent sums of other columns"):
        surveyed(files)


def test_a_site_tells_nothing_of_columns_it_has_not_named(tmp_path: Path) -> None:
    files = own_csvs(tmp_path, patients(), "target=sick&id=patient&drop=ward")
    terms = Terms(of_sites()).to_json()
    for name in ("patient", "ward", "sick"):
        call = pack_call(Request("survey"), Parcel(options={"columns": {name: "categorical"}}))
        said = answer_at_site(files[0], terms, call)
        assert f"does not fit: it lacks the columns {name}" in str(unpack_replies(said))
        assert b"surgery" not in said
        assert b"P001" not in said


def test_numbers_at_some_sites_are_words_where_another_has_words(tmp_path: Path) -> None:
    frame = patients()
    frame["code"] = [str(n % 3) for n in range(len(frame))]
    frame.loc[frame["hospital"] == "West", "code"] = "U07"
    facts = surveyed(own_csvs(tmp_path, frame))
    assert facts.preparation is not None
    code = next(c for c in facts.preparation.columns if c.name == "code")
    assert (code.kind, code.categories) == ("categorical", ("0", "1", "2", "U07"))


def _change(files: list[Path], client: int, **columns: Any) -> None:
    path = files[client].parent / "cases.csv"
    frame = pd.read_csv(path)
    for name, values in columns.items():
        if values is None:
            frame = frame.drop(columns=name)
        else:
            frame[name] = values
    frame.to_csv(path, index=False)


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"age": None}, r"client 'South' \(1\) has no column 'age', which others have"),
        ({"height": 3}, r"only client 'South' \(1\) has column 'height'"),
        ({"age": "2024-01-05"}, r"column 'age' of client 'South' \(1\) holds dates"),
        ({"age": "old"}, r"column 'age' holds words at client 'South' \(1\) and numbers at"),
        ({"sick": "1"}, r"client 'South' \(1\) has the classes 1, of which no other site has any"),
        (
            {"sick": None, "sad": "no"},
            r"client 'South' \(1\): unknown column of .* for target 'sick'",
        ),
    ],
)
def test_a_table_that_does_not_fit_is_refused_by_name(
    tmp_path: Path, columns: dict[str, Any], why: str
) -> None:
    files = own_csvs(tmp_path, patients())
    _change(files, 1, **columns)
    with pytest.raises(ConfigError, match=why):
        run(of_sites(), Place(tmp_path / "run"), sites=sites_here(files))
    assert not (tmp_path / "run").exists()


def test_other_targets_missing_words_and_kinds_of_data_are_told(tmp_path: Path) -> None:
    files = own_csvs(tmp_path, patients())
    text = files[1].read_text()
    files[1].write_text(text.replace("target=sick", "target=smoker"))
    with pytest.raises(ConfigError, match=r"'South' \(1\) predicts column 'smoker' and client 'No"):
        surveyed(files, Stated(class_names=("no", "yes", "true", "false")))
    files[1].write_text(text.replace("target=sick", "target=sick&missing=-999"))
    with pytest.raises(ConfigError, match=r"'South' \(1\) takes '-999' for missing cells"):
        surveyed(files)
    files[1] = own_table(tmp_path, 1)
    with pytest.raises(
        ConfigError, match=r"'hospital 1' \(1\) has kind 'vector' and client 'North'"
    ):
        surveyed(files)


def test_what_a_study_states_of_its_tables_counts(tmp_path: Path) -> None:
    files = own_csvs(tmp_path, patients())
    _change(files, 1, sick="unclear")
    with pytest.raises(ConfigError, match="class 'unclear' is not among the classes of the study"):
        surveyed(files, Stated(kind="table", class_names=("no", "yes")))
    facts = surveyed(files, Stated(class_names=("unclear", "no", "yes")))
    assert facts.class_names == ("unclear", "no", "yes")
    only = read_site(load_site(files[1]), of_sites()).agreed(facts)
    assert set(only.client(1).train.labels.tolist()) == {0}
    with pytest.raises(ConfigError, match="become 8 inputs, and the study has input_shape = "):
        surveyed(files, Stated(input_shape=(5,), class_names=("unclear", "no", "yes")))


def test_who_comes_late_must_fit_what_was_agreed(tmp_path: Path) -> None:
    files = own_csvs(tmp_path, patients())
    facts = surveyed(files[:2])

    def late(**columns: Any) -> None:
        path = files[2].parent / "cases.csv"
        before = path.read_text()
        try:
            _change(files, 2, **columns)
            read_site(load_site(files[2]), of_sites()).agreed(facts)
        finally:
            path.write_text(before)

    late(height=3)  # more columns do no harm
    late(ward="unheard of")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"age": None}, "it lacks the columns age"),
        ({"age": "old"}, "column 'age' holds words there, and numbers in the study"),
        ({"sick": "maybe"}, "class 'maybe' is not among the classes of the study"),
        ({"lab": "2024-01-05"}, "column 'lab' holds dates there"),
    ]
    for columns, why in refused:
        with pytest.raises(DataError, match=rf"client 'West' \(2\) does not fit the study: {why}"):
            late(**columns)
    vectors = read_site(load_site(own_table(tmp_path, 2)), of_sites())
    with pytest.raises(DataError, match="the study is about tables with named columns"):
        vectors.agreed(facts)


def test_a_refused_site_is_left_out_where_the_quorum_lets(tmp_path: Path) -> None:
    there = Hospitals(dict(enumerate(own_csvs(tmp_path, patients()))))
    _change(list(there.files.values()), 2, sick="unclear")
    stated = Stated(class_names=("no", "yes"))
    place = Place(tmp_path / "run", patience=Patience(quorum=0.6))
    run(of_sites(), place, sites=there.sites(stated))
    first = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[0])
    assert any("client 'West' (2) does not fit the study" in event for event in first["events"])
    task = json.loads((tmp_path / "run" / "partition.json").read_text())["task"]
    ward = next(c for c in task["preparation"]["columns"] if c["name"] == "ward")
    assert "sauna" not in ward["categories"]


def test_a_killed_run_over_tables_goes_on_with_what_was_agreed(tmp_path: Path) -> None:
    files = own_csvs(tmp_path, patients())
    whole = run(of_sites(rounds=3), Place(tmp_path / "whole"), sites=sites_here(files))

    def stop(*arguments: Any) -> None:
        raise OSError("killed")

    place, again = Place(tmp_path / "run"), Place(tmp_path / "run", resume=True)
    with pytest.raises(OSError, match="killed"):
        run(of_sites(rounds=3), place, Progress(round=stop), sites=sites_here(files))
    cases = files[1].parent / "cases.csv"
    before = cases.read_text()
    _change(files, 1, age=7)
    with pytest.raises(CheckpointError, match="the data of client 1 is not what it was"):
        run(of_sites(rounds=3), again, sites=sites_here(files))
    cases.write_text(before)
    gone = run(of_sites(rounds=3), again, sites=sites_here(files))
    assert gone["state_hash"] == whole["state_hash"]
    assert gone["accuracy"] == whole["accuracy"]


@pytest.mark.parametrize("form", ["share", "other", "parquet"])
def test_what_a_site_tests_on(tmp_path: Path, form: str) -> None:
    files = own_csvs(tmp_path, patients())
    facts = surveyed(files)
    rows = len(pd.read_csv(files[0].parent / "cases.csv"))
    text, config = files[0].read_text(), of_sites(validation=0.0)
    if form == "share":
        files[0].write_text(text + "test = 0.5\n")
        expected = (rows - rows // 2, 0, rows // 2)
    elif form == "other":
        files[0].write_text(text + 'test = "csv:../West/cases.csv?target=sick"\n')
        expected = (rows, 0, len(pd.read_csv(files[2].parent / "cases.csv")))
    else:
        frame = pd.read_csv(files[0].parent / "cases.csv")
        frame.to_parquet(files[0].parent / "cases.parquet")
        expected = read_site(load_site(files[0]), config).sizes(0)
        plain = read_site(load_site(files[0]), config).agreed(facts)
        files[0].write_text(text.replace("csv:cases.csv", "parquet:cases.parquet"))
        again = read_site(load_site(files[0]), config).agreed(facts)
        assert again.fingerprint == plain.fingerprint  # the same cells, in whichever file
    data = read_site(load_site(files[0]), config).agreed(facts)
    assert data.sizes(0) == expected
    if form == "other":
        west = read_site(load_site(files[2]), config).agreed(facts).population
        assert data.client(0).test.inputs.sum() == pytest.approx(float(west.inputs.sum()), rel=1e-5)


def test_names_of_hospitals_reach_the_report(tmp_path: Path) -> None:
    files = own_csvs(tmp_path, patients())
    result = run(of_sites("afl", rounds=1), Place(tmp_path / "run"), sites=sites_here(files))
    recorded = json.loads((tmp_path / "run" / "partition.json").read_text())
    assert tuple(recorded["client_names"]) == HOSPITALS
    assert result["accuracy"] > 0.7
