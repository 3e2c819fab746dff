"""`fedcord predict`: a row for every example, or one message."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import fedcord as library
from tests.cli.command import fedcord
from tests.trained.runs import IMAGE, TEXT, VECTOR, finished, own_data


def _rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return list(csv.DictReader(opened))


def _save(place: Path, **arrays: object) -> str:
    np.savez(place / "new.npz", **arrays)  # type: ignore[arg-type]
    return "npz:new.npz"


@pytest.mark.parametrize("kind", [IMAGE, VECTOR, TEXT])
def test_a_row_for_every_example_with_class_and_scores(tmp_path: Path, kind: str) -> None:
    data = own_data(kind, 900)
    finished(tmp_path / "run", "fedavg", data, rounds=1)
    given = _save(tmp_path, x=data.test.inputs)
    done = fedcord("predict", "run", "--data", given, "--out", "out/p.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "300 predictions of run: out/p.csv" in done.stdout
    rows = _rows(tmp_path / "out/p.csv")
    model = library.load(tmp_path / "run")
    assert [row["id"] for row in rows] == list(map(str, range(300)))  # more than one batch
    assert [row["class"] for row in rows] == model.predict(data.test.inputs).tolist()
    scores = [[float(row["calm"]), float(row["wild"])] for row in rows]
    np.testing.assert_array_equal(np.array(scores, np.float32), model.scores(data.test.inputs))


@pytest.mark.parametrize("labels", ["numbers", "names"])
def test_where_classes_are_known_the_accuracy_is_told(tmp_path: Path, labels: str) -> None:
    data = own_data(VECTOR)
    result = finished(tmp_path / "run", "fedavg", data, rounds=2)
    y = data.test.labels if labels == "numbers" else np.array(data.class_names)[data.test.labels]
    given = _save(tmp_path, x=data.test.inputs, y=y, id=[f"case {n}" for n in range(len(y))])
    done = fedcord("predict", "run", "--data", given, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["accuracy"] == result["accuracy"]
    assert said == {
        "examples": 40,
        "run_dir": "run",
        "client": None,
        "accuracy": said["accuracy"],
        "out": "predictions.csv",
        "notes": [],
    }
    assert _rows(tmp_path / "predictions.csv")[7]["id"] == "case 7"


def test_a_client_is_chosen_by_number_or_name(tmp_path: Path) -> None:
    data, file = own_data(VECTOR), tmp_path / "all.npz"
    site = np.array(["North", "South"])[np.arange(len(data.train)) % 2]
    np.savez(file, x=data.train.inputs, y=data.train.labels, site=site)
    settings: dict[str, Any] = {"partition": "natural:site", "clients": 0, "rounds": 1}
    finished(tmp_path / "run", "fedproto", name=f"npz:{file}", **settings)
    given = _save(tmp_path, x=data.test.inputs)
    written = {}
    for client in ("1", "South", "North"):
        words = ["predict", "run", "--data", given, "--client", client, "--out", f"{client}.csv"]
        done = fedcord(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        written[client] = (tmp_path / f"{client}.csv").read_text()
    assert written["1"] == written["South"] != written["North"]


def test_pictures_are_brought_to_the_size_of_the_run(tmp_path: Path) -> None:
    data = own_data(IMAGE)
    finished(tmp_path / "run", "fedavg", data, rounds=2)
    for label, name in enumerate(data.class_names):
        (tmp_path / "new" / name).mkdir(parents=True)
        pixels = data.test.inputs[data.test.labels == label][0].transpose(1, 2, 0)
        Image.fromarray(pixels.repeat(2, 0).repeat(2, 1)).save(tmp_path / "new" / name / "a.png")
    done = fedcord("predict", "run", "--data", "folder:new", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "accuracy 1.0000 on the 2 whose class is known" in done.stdout
    rows = _rows(tmp_path / "predictions.csv")
    assert [row["id"] for row in rows] == ["calm/a.png", "wild/a.png"]


def _picture(path: Path, wide: bool = False) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.zeros((8, 8), np.uint16 if wide else np.uint8)).save(path)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"x": np.zeros((4, 5, 9, 8), np.uint8)}, "can be read two ways or none"),
        ({"x": np.zeros((4, 9, 9), np.uint8)}, "shape [1, 9, 9], the model takes [3, 8, 8]"),
        ({"x": np.zeros((4, 7))}, "examples are of kind vector, the model takes image"),
        ({"z": np.zeros((4, 3, 8, 8), np.uint8)}, "expected x, the examples to predict"),
        ({"x": np.zeros((0, 3, 8, 8), np.uint8)}, "holds no examples"),
        (
            {"x": np.zeros((2, 3, 8, 8), np.uint8), "y": ["calm", "eerie"]},
            "y, row 1: unknown class 'eerie'; Allowed: calm, wild. The model was trained on these",
        ),
        ({"x": np.zeros((2, 3, 8, 8), np.uint8), "y": [0, 2]}, "y, row 1: unknown class '2'"),
        ({"x": np.zeros((2, 3, 8, 8), np.uint8), "id": [1]}, "id has shape [1]"),
    ],
)
def test_examples_that_do_not_fit_leave_no_file(
    tmp_path: Path, arrays: dict[str, object], words: str
) -> None:
    finished(tmp_path / "run", "fedavg", own_data(IMAGE), rounds=1)
    done = fedcord("predict", "run", "--data", _save(tmp_path, **arrays), cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.suffix in (".csv", ".tmp")] == []


def test_pictures_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    finished(tmp_path / "run", "fedavg", own_data(IMAGE), rounds=1)
    _picture(tmp_path / "wide" / "a.png", wide=True)
    _picture(tmp_path / "classes" / "calm" / "a.png")
    _picture(tmp_path / "classes" / "eerie" / "a.png")
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / "readme.txt").write_text("nothing")
    for folder, words in {
        "wide": "1 have more than 8 bits of grey, and the model was trained on pictures of 8",
        "classes": "eerie/a.png: unknown class 'eerie'",
        "none": "holds no pictures",
        "absent": "does not exist",
        "wide?size=9": "the model takes pictures of 8x8; leave ?size= out",
    }.items():
        done = fedcord("predict", "run", "--data", f"folder:{folder}", cwd=tmp_path)
        assert done.returncode == 2
        assert words in done.stderr
    assert not list(tmp_path.glob("*.csv"))


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--client", "9"], "client 9 does not exist; this run has clients 0 to 2"),
        (["--client", "North"], "must be a number; clients of this run have no names"),
        (["--data", "digits"], "examples to predict are read from npz:PATH, folder:PATH, csv:PATH"),
        (["--out", "run"], "is a folder; name a file"),
    ],
)
def test_flags_that_do_not_fit_are_refused(tmp_path: Path, flags: list[str], words: str) -> None:
    data = own_data(VECTOR)
    finished(tmp_path / "run", "fedavg", data, rounds=1)
    given = _save(tmp_path, x=data.test.inputs)
    done = fedcord("predict", "run", "--data", given, *flags, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_run_of_another_version_is_refused(tmp_path: Path) -> None:
    data = own_data(VECTOR)
    finished(tmp_path / "run", "fedavg", data, rounds=1)
    config = tmp_path / "run" / "config.toml"
    config.write_text(config.read_text().replace("schema = 1", "schema = 2"))
    (tmp_path / "run" / "SHA256SUMS").unlink()
    given = _save(tmp_path, x=data.test.inputs)
    done = fedcord("predict", "run", "--data", given, cwd=tmp_path)
    assert done.returncode == 2
    assert "was not written by this version of fedcord" in done.stderr


PATIENTS = "hospital,age,blood,smokes,ill\n" + "".join(
    f"{'NS'[n % 2]},{30 + n % 50},{'ABO'[n % 3]},{n % 4 == 0},{'yes' if n % 50 > 25 else 'no'}\n"
    for n in range(200)
)


def test_rows_of_a_table_are_prepared_as_the_training_rows_were(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "all.csv").write_text(PATIENTS)
    words = ["--dataset", "csv:all.csv", "--target", "ill", "--client-column", "hospital"]
    done = fedcord("run", "afl", *words, "--out", "run", "--quiet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # another order, a column too many, a missing cell, a category that nobody had
    (tmp_path / "new.csv").write_text(
        "blood,smokes,age,note\nA,True,79,x\nAB,False,31,y\nO,,30,z\n"
    )
    done = fedcord("predict", "run", "--data", "csv:new.csv", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "categories that training did not have" in done.stdout
    rows = _rows(tmp_path / "predictions.csv")
    assert [row["id"] for row in rows] == ["1", "2", "3"]
    assert [row["class"] for row in rows[:2]] == ["yes", "no"]
    done = fedcord(
        "predict", "run", "--data", "csv:all.csv", "--out", "a.csv", "--json", cwd=tmp_path
    )
    assert json.loads(done.stdout)["accuracy"] > 0.9  # one row alone would scale to nothing
    for text, words_ in {
        "blood,smokes\nA,True\n": "age",
        "blood,smokes,age,ill\nA,True,40,maybe\n": "unknown class 'maybe'",
    }.items():
        (tmp_path / "odd.csv").write_text(text)
        done = fedcord("predict", "run", "--data", "csv:odd.csv", "--out", "o.csv", cwd=tmp_path)
        assert done.returncode == 2
        assert words_ in done.stderr
    given = _save(tmp_path, x=np.zeros((3, 6)))
    done = fedcord("predict", "run", "--data", given, "--out", "o.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "trained on a table and takes its columns (age, blood, smokes)" in done.stderr
    assert not (tmp_path / "o.csv").exists()


def test_a_table_is_refused_by_a_model_of_something_else(tmp_path: Path) -> None:
    finished(tmp_path / "run", "fedavg", own_data(VECTOR), rounds=1)
    (tmp_path / "new.csv").write_text("a,b\n1,2\n")
    done = fedcord("predict", "run", "--data", "csv:new.csv", cwd=tmp_path)
    assert done.returncode == 2
    assert "is a table, and the model was not trained on one" in done.stderr
