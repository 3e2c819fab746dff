"""A folder with a model that is used without the run, and without fedcord."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import fedcord as library
from fedcord.core.errors import CheckpointError, ConfigError
from fedcord.experiment.finished_run import read_finished
from fedcord.store.checksums import CHECKSUMS, sha256
from fedcord.trained.exported import export_model, read_exported
from fedcord.trained.model import model_of
from tests.cli.command import fedcord, result_of
from tests.trained.runs import IMAGE, TEXT, VECTOR, finished, own_data

FILES = ["README.md", "SHA256SUMS", "model.json", "model.pt2", "model.safetensors"]


@pytest.mark.parametrize("kind", [IMAGE, VECTOR, TEXT])
def test_the_program_takes_examples_as_they_are_stored(tmp_path: Path, kind: str) -> None:
    data = own_data(kind)
    result = finished(tmp_path / "run", "fedavg", data, rounds=2)
    done = fedcord("export", "run", "model", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == FILES
    inside = {"model.json": ""}
    program = torch.export.load(tmp_path / "model" / "model.pt2", extra_files=inside).module()
    told = json.loads((tmp_path / "model" / "model.json").read_text())
    assert json.loads(inside["model.json"]) == told
    inputs = torch.from_numpy(data.test.inputs)
    assert told["input"]["dtype"] == str(inputs.dtype).removeprefix("torch.")
    assert told["input"]["shape"] == ["batch", *inputs.shape[1:]]
    scores = program(inputs)
    wanted = torch.from_numpy(library.load(tmp_path / "run").scores(data.test.inputs))
    torch.testing.assert_close(scores, wanted, rtol=1e-5, atol=1e-5)
    right = scores.argmax(dim=1).numpy() == data.test.labels
    assert right.mean() == result["accuracy"]


def test_a_frozen_network_is_part_of_the_program(tmp_path: Path) -> None:
    data = own_data(IMAGE)
    finished(tmp_path / "run", "afl", data, model="frozen:random-conv")
    run = read_finished(tmp_path / "run")
    export_model(run, model_of(run), tmp_path / "model")
    program = torch.export.load(tmp_path / "model" / "model.pt2").module()
    scores = program(torch.from_numpy(data.test.inputs))
    wanted = torch.from_numpy(library.load(tmp_path / "run").scores(data.test.inputs))
    torch.testing.assert_close(scores, wanted, rtol=1e-5, atol=1e-5)


def test_an_exported_model_is_loaded_like_a_run(tmp_path: Path) -> None:
    data = own_data(VECTOR)
    finished(tmp_path / "run", "fedproto", data, rounds=1)
    result_of("export", "run", "model", "--client", "1", cwd=tmp_path)
    run, model = library.load(tmp_path / "run"), library.load(tmp_path / "model")
    wanted = run.scores(data.test.inputs, client=1)
    for client in (None, 1, "1"):
        np.testing.assert_array_equal(model.scores(data.test.inputs, client=client), wanted)
    assert model.metrics == run.metrics
    with pytest.raises(ConfigError, match=r"client 0: .* holds one exported model"):
        model.predict(data.test.inputs, client=0)
    assert "treat it as that client's data" in (tmp_path / "model" / "README.md").read_text()


def _exported(place: Path) -> Path:
    finished(place / "run", "fedavg", own_data(VECTOR), rounds=1)
    run = read_finished(place / "run")
    export_model(run, model_of(run), place / "model")
    return place / "model"


def _change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_a_model_of_another_version_is_refused(tmp_path: Path) -> None:
    model = _exported(tmp_path)
    _change(model / "model.json", format="fedcord-model-9", versions={"fedcord": "7.0"})
    np.savez(tmp_path / "new.npz", x=np.zeros((2, 5)))
    done = fedcord("predict", "model", "--data", "npz:new.npz", cwd=tmp_path)
    assert done.returncode == 2
    assert "in the format 'fedcord-model-9', written by fedcord 7.0" in done.stderr
    assert "export the run anew" in done.stderr


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"hash": "0"}, "is of another model than model.json"),
        ({"task": {}}, "cannot be used"),
        ({"task": 3}, "cannot be used"),
        ({"moment": {"seed": 0}}, "cannot be used"),
        ({"config": {"algorithm": "fedavgg"}}, "unknown algorithm 'fedavgg'"),
        ({"result": None}, "its result is no table"),
    ],
)
def test_a_damaged_model_is_refused(tmp_path: Path, values: dict[str, Any], words: str) -> None:
    model = _exported(tmp_path)
    _change(model / "model.json", **values)
    with pytest.raises(CheckpointError, match=r"model.json is not the file that SHA256SUMS lists"):
        read_exported(model)
    files = {"model.json", "model.safetensors"}  # somebody who writes the list anew as well
    sums = {name: sha256((model / name).read_bytes()) for name in files}
    (model / CHECKSUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    with pytest.raises(CheckpointError, match=words):
        read_exported(model)


@pytest.mark.parametrize("name", ["model.json", "model.safetensors", "SHA256SUMS"])
def test_every_byte_counts(tmp_path: Path, name: str) -> None:
    model = _exported(tmp_path)
    (model / "README.md").write_text("a card is there to be written on")
    read_exported(model)
    content = (model / name).read_bytes()
    for place in range(0, len(content), max(1, len(content) // 25)):
        changed = bytearray(content)
        changed[place] ^= 1
        (model / name).write_bytes(bytes(changed))
        if name == "SHA256SUMS" and b"model.pt2" in content[place - 80 : place + 80]:
            continue  # the program is for others to check
        with pytest.raises(CheckpointError, match=r"export the run anew"):
            read_exported(model)


def test_what_is_there_is_not_written_over_and_bad_clients_leave_nothing(tmp_path: Path) -> None:
    _exported(tmp_path)
    done = fedcord("export", "run", "model", cwd=tmp_path)
    assert done.returncode == 2
    assert "'model' is there already; choose a new folder" in done.stderr
    done = fedcord("export", "run", "other", "--client", "9", cwd=tmp_path)
    assert done.returncode == 2
    assert "client 9 does not exist; this run has clients 0 to 2" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "run"]


def test_a_failed_export_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished(tmp_path / "run", "fedavg", own_data(VECTOR), rounds=1)
    run = read_finished(tmp_path / "run")

    def full(path: Path, content: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("fedcord.trained.exported.write_atomically", full)
    with pytest.raises(ConfigError, match="cannot be written"):
        export_model(run, model_of(run), tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_table_is_exported_with_what_makes_its_inputs(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    lines = (f"{'NS'[n % 2]},{30 + n % 50},{'ABO'[n % 3]},{n % 50 > 25}" for n in range(120))
    (tmp_path / "all.csv").write_text("\n".join(["hospital,age,blood,ill", *lines]))
    words = ["--dataset", "csv:all.csv", "--target", "ill", "--client-column", "hospital"]
    result_of("run", "afl", *words, "--out", "run", cwd=tmp_path)
    result_of("export", "run", "model", cwd=tmp_path)
    told = json.loads((tmp_path / "model" / "model.json").read_text())
    columns = told["task"]["preparation"]["columns"]
    assert [column["name"] for column in columns] == ["age", "blood"]
    card = (tmp_path / "model" / "README.md").read_text()
    assert "`age`, `blood = A`, `blood = B`, `blood = O`" in card
    program = torch.export.load(tmp_path / "model" / "model.pt2").module()
    wanted = library.load(tmp_path / "run").scores(np.eye(4, dtype=np.float32))
    torch.testing.assert_close(program(torch.eye(4)), torch.from_numpy(wanted))
