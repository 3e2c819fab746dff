"""What goes wrong at a site is told to the server without a file's name; the site's log has it."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedcord.core.errors import ConfigError, DataError, FedcordError, ProtocolError
from fedcord.engine.requests import Parcel, Request, Verb, pack_call, unpack_replies
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from fedcord.experiment.terms import Terms
from fedcord.site.answering import answer_at_site
from fedcord.site.in_process import sites_here
from fedcord.site.site_file import load_site
from fedcord.site.without_paths import without_paths
from tests.site.in_process import own_table

CONFIG = load_config({"algorithm": "fedavg", "dataset": "sites:scans", "clients": 1, "rounds": 1})


def _told(path: Path, verb: Verb = "survey") -> str:
    """What the server hears of a site that fails."""
    call = pack_call(Request(verb), Parcel())
    found = unpack_replies(answer_at_site(path, Terms(CONFIG).to_json(), call))
    assert isinstance(found, FedcordError)
    return str(found)


def _site(folder: Path, data: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "site.toml"
    path.write_text(f'client = 0\nname = "North"\ndata = "{data}"\n')
    return path


@pytest.fixture
def private(tmp_path: Path) -> Path:
    return tmp_path / "dr who" / "ward 7"


def _check(said: str, private: Path) -> None:
    for secret in (str(private), "dr who", "ward 7", "smith", private.parts[1]):
        assert secret not in said, said


@pytest.mark.parametrize("data", ["npz:smith.npz", "csv:smith.csv?target=y", "folder:smith"])
def test_a_file_that_is_missing(private: Path, data: str, caplog: pytest.LogCaptureFixture) -> None:
    said = _told(_site(private, data))
    _check(said, private)
    assert said.startswith("client 'North' (0): ")
    assert "does not exist" in said or "No such file" in said
    assert str(private / "smith") in caplog.text
    assert caplog.records[0].levelno == logging.WARNING


def test_pictures_that_cannot_be_read(private: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number, name in enumerate(("benign", "odd")):
        (private / "scans" / name).mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8), np.uint8)).save(private / "scans" / name / f"{number}.png")
    (private / "scans" / "odd" / "john smith.png").write_bytes(b"no picture")
    said = _told(_site(private, "folder:scans"))
    _check(said, private)
    assert "1 of 3 images cannot be read: … (not a known image format); repair or remove" in said
    assert "john smith.png" in caplog.text


def test_cells_and_columns_are_told_and_the_file_is_not(private: Path) -> None:
    path = _site(private, "csv:smith.csv?target=sick")
    (private / "smith.csv").write_text("age,sex\n1,f\n2,m\n")
    said = _told(path)
    _check(said, private)
    assert "column" in said
    assert "'sick'" in said


def test_a_sites_own_file_is_not_named(private: Path, tmp_path: Path) -> None:
    path = _site(private, "npz:a.npz")
    path.write_text("client = 0\n")
    said = _told(path)
    _check(said, private)
    assert said == "'…': data is missing; name it, such as data = 'npz:cases.npz'."
    assert "does not exist" in _told(private / "other.toml")


def test_a_whole_run_tells_the_coordinator_no_path(tmp_path: Path) -> None:
    path = _site(tmp_path / "dr who", "npz:smith.npz")
    with pytest.raises(ConfigError) as failed:
        run(CONFIG, Place(tmp_path / "run"), sites=sites_here([path]))
    assert "cannot be read" in str(failed.value) or "does not exist" in str(failed.value)
    _check(str(failed.value), tmp_path / "dr who")


def test_words_that_are_no_paths_stay(tmp_path: Path) -> None:
    path = own_table(tmp_path, 0)
    site = load_site(path)
    text = "give folder/CLASS/NAME and/or 1/2 of [N, H/W]; data set 'cases': cases, e.g. a.b"
    left = str(without_paths(DataError(text), path, site))
    assert left == text.replace("'cases'", "…")
    kept = f"'{site.memory}/abc/0.safetensors' is damaged, see /usr/lib/x.py: line 3"
    said = without_paths(ProtocolError(kept), path, site)
    assert isinstance(said, ProtocolError)
    assert str(said) == "'…' is damaged, see …: line 3"
