"""Pictures with more than 8 bits of grey are read as the training pictures were."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import fedcord as library
from fedcord.core.errors import ConfigError, DataError
from fedcord.data.facts import DataFacts
from fedcord.data.grey_range import GreyRange
from fedcord.data.registry import load_dataset
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from fedcord.site.in_process import sites_here
from tests.cli.command import fedcord
from tests.trained.runs import finished

LOW, HIGH = 100, 4095
"""Of the training pictures: black and white."""


def _draw(
    folder: Path, suffix: str, kind: type = np.uint16, top: int = HIGH, count: int = 8
) -> None:
    """Two classes of pictures, dark and bright, of which the first two have the ends."""
    rng = np.random.default_rng(3)
    for name, ends in {"dark": (0.0, 0.3), "bright": (0.6, 1.0)}.items():
        (folder / name).mkdir(parents=True)
        low = LOW * top // HIGH
        for number in range(count):
            values = low + rng.uniform(*ends, (8, 8)) * (top - low)
            if number == 0:
                values[0, 0] = low if name == "dark" else top
            Image.fromarray(values.round().astype(kind)).save(folder / name / f"{number}{suffix}")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("depth")
    for suffix in (".png", ".tif"):
        _draw(folder / f"train{suffix}", suffix)
        _draw(folder / f"bytes{suffix}", suffix, np.uint8, 255)
    for name in ("train.png", "bytes.png"):
        finished(folder / f"run-{name}", "fedavg", name=f"folder:{folder / name}?size=8", rounds=3)
    return folder


def test_the_range_is_recorded(place: Path) -> None:
    facts = library.load(place / "run-train.png").facts
    assert facts.grey == GreyRange(LOW, HIGH)
    assert DataFacts.from_plain(json.loads(json.dumps(facts.plain()))) == facts
    assert library.load(place / "run-bytes.png").facts.grey is None


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_new_pictures_are_scaled_by_the_training_range(
    place: Path, suffix: str, tmp_path: Path
) -> None:
    """One dim picture alone, which by its own values would be as bright as any."""
    dim = np.full((8, 8), 700, np.uint16)
    dim[0, 0], dim[0, 1] = 900, 60_000  # what is brighter than white is white
    Image.fromarray(dim).save(tmp_path / f"dim{suffix}")
    done = fedcord("predict", str(place / "run-train.png"), "--data", "folder:.", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    line = (tmp_path / "predictions.csv").read_text().splitlines()[1].split(",")
    wanted = np.clip(np.rint(255 * (dim.astype(float) - LOW) / (HIGH - LOW)), 0, 255)
    model = library.load(place / "run-train.png")
    stored = wanted.astype(np.uint8)[None, None]
    assert line[1] == model.predict(stored)[0] == "dark"
    found = np.array([float(text) for text in line[2:]], np.float32)
    np.testing.assert_array_equal(found, model.scores(stored)[0])


@pytest.mark.parametrize("suffix", [".png", ".tif"])
def test_a_run_of_eight_bits_refuses_pictures_of_more(place: Path, suffix: str) -> None:
    done = fedcord("predict", "run-bytes.png", "--data", f"folder:train{suffix}", cwd=place)
    assert done.returncode == 2
    assert "16 have more than 8 bits of grey, and the model was trained on pictures of 8 bits" in (
        done.stderr
    )
    assert "convert them to 8 bits as the training pictures were" in done.stderr
    assert not (place / "predictions.csv").exists()


def test_a_run_of_more_bits_refuses_pictures_of_eight(place: Path) -> None:
    done = fedcord("predict", "run-train.png", "--data", "folder:bytes.tif", cwd=place)
    assert done.returncode == 2
    assert "16 have 8 bits, and the model was trained on pictures with more, whose values" in (
        done.stderr
    )
    assert "100 to 4095 are black to white" in done.stderr
    done = fedcord("predict", "run-train.png", "--data", "folder:train.tif?range=0:9", cwd=place)
    assert done.returncode == 2
    assert "leave ?range= out" in done.stderr


def test_a_stated_range_is_taken_instead_of_the_pictures_own(place: Path) -> None:
    told = load_dataset(f"folder:{place / 'train.png'}?size=8&range=0:65535")
    assert told.grey == GreyRange(0, 65535)
    assert told.train.inputs.max() == round(255 * HIGH / 65535)
    for text in ("4095", "9:1", "a:b", "0:inf", "3:3"):
        with pytest.raises(DataError, match=r"give the values that are black\s+and white"):
            load_dataset(f"folder:{place / 'train.png'}?range={text}")
    with pytest.raises(DataError, match="is no range of grey values"):
        GreyRange.from_json({"low": 0, "high": "9", "beside_bytes": False})


def test_sites_say_which_values_are_black_and_white(tmp_path: Path) -> None:
    config = load_config(
        {"algorithm": "fedavg", "dataset": "sites:scans", "clients": 2, "rounds": 1}
    )
    files = []
    for client in range(2):
        _draw(tmp_path / f"site-{client}" / "scans", ".png", top=4000 - 90 * client)
        files.append(tmp_path / f"site-{client}" / "site.toml")

    def say(*ranges: str) -> None:
        for client, (file, text) in enumerate(zip(files, ranges, strict=True)):
            data = f'data = "folder:scans?size=8{text}"'
            file.write_text(f"client = {client}\n{data}\n")

    say("", "")
    with pytest.raises(ConfigError, match=r"say at all sites which are, as in \?range=0:4095"):
        run(config, Place(tmp_path / "a"), sites=sites_here(files))
    say("&range=0:4095", "&range=0:4000")
    with pytest.raises(ConfigError, match="do not take the same grey values for black and white"):
        run(config, Place(tmp_path / "a"), sites=sites_here(files))
    say("&range=0:4095", "&range=0:4095")
    run(config, Place(tmp_path / "a"), sites=sites_here(files))
    assert library.load(tmp_path / "a").facts.grey == GreyRange(0, 4095)
