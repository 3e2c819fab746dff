"""Texts as they are written, answered by a run that keeps its words."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedcord as library
from fedcord.core.errors import CheckpointError, DataError
from fedcord.data.dataset import Dataset, Split
from fedcord.data.vocabulary import Vocabulary
from fedcord.experiment.api import compare
from fedcord.experiment.load import load_config
from fedcord.experiment.run import Place, run
from fedcord.site.in_process import sites_here
from fedcord.site.kept_model import find_model
from fedcord.site.site_file import load_site
from fedcord.store.checksums import PARTITION
from tests.cli.command import fedcord
from tests.trained.runs import TEXT, finished, own_data

CALM, WILD = ("sea", "lake", "pond"), ("storm", "flood", "gale")
NEW = ["The SEA and the lake.", "Flood, gale: storm!", "pond; unheard-of lake sea"]
ANSWERS = ["calm", "wild", "calm"]


def texts(count: int = 90) -> tuple[list[str], np.ndarray]:
    rng = np.random.default_rng(2)
    labels = np.arange(count) % 2
    words = [rng.choice((CALM, WILD)[label], 6) for label in labels]
    return [" ".join(row).title() for row in words], labels


def told_data() -> Dataset:
    written, labels = texts()
    words = Vocabulary.of(written[:60], 20, 8)
    ids = words.encode(written)
    parts = Split(ids[:60], labels[:60]), Split(ids[60:], labels[60:])
    names = ("calm", "wild")
    return Dataset("weather", "text", *parts, names, vocabulary=words.size, words=words)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    finished(folder / "run", "fedavg", told_data(), rounds=6, params={"local": {"lr": 0.5}})
    return folder


def test_texts_are_numbered_by_the_words_of_the_run(place: Path) -> None:
    model = library.load(place / "run")
    assert model.predict(NEW).tolist() == ANSWERS
    words = told_data().words
    assert words is not None
    np.testing.assert_array_equal(model.scores(NEW), model.scores(words.encode(NEW)))
    np.testing.assert_array_equal(model.scores(np.array(NEW, object)), model.scores(NEW))
    # words that training did not have are one and the same, as they were there
    assert model.scores(["sea zebra"]).tolist() == model.scores(["sea giraffe"]).tolist()
    task = json.loads((place / "run" / PARTITION).read_text())["task"]
    assert task["words"] == words.to_json()


def test_a_changed_word_is_noticed(place: Path, tmp_path: Path) -> None:
    finished(tmp_path / "run", "fedavg", told_data(), rounds=1)
    text = (tmp_path / "run" / PARTITION).read_text()
    (tmp_path / "run" / PARTITION).write_text(text.replace('"storm"', '"sturm"'))
    with pytest.raises(CheckpointError, match="is not as fedcord wrote it"):
        library.load(tmp_path / "run")


def test_an_exported_model_takes_texts_too(place: Path) -> None:
    done = fedcord("export", "run", "model", cwd=place)
    assert done.returncode == 0, done.stderr
    assert library.load(place / "model").predict(NEW).tolist() == ANSWERS


@pytest.mark.parametrize(
    ("header", "data"),
    [
        (["text"], "csv:new.csv"),
        (["text", "remark"], "csv:new.csv"),
        (["key", "said"], "csv:new.csv?id=key"),
        (["said", "truth"], "csv:new.csv?target=truth"),
    ],
)
def test_a_table_of_texts_is_predicted(place: Path, header: list[str], data: str) -> None:
    column = {"text": NEW, "said": NEW, "key": ["a", "b", "c"], "truth": ANSWERS, "remark": NEW}
    with (place / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows([header, *zip(*(column[name] for name in header), strict=True)])
    done = fedcord("predict", "run", "--data", data, "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    with (place / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["class"] for row in rows] == ANSWERS
    assert [row["id"] for row in rows] == (["a", "b", "c"] if "key" in header else ["1", "2", "3"])
    assert json.loads(done.stdout)["accuracy"] == (1.0 if "truth" in header else None)


def test_an_array_of_texts_is_predicted(place: Path) -> None:
    np.savez(place / "new.npz", x=NEW, y=ANSWERS)
    done = fedcord("predict", "run", "--data", "npz:new.npz", "--json", cwd=place)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("content", "data", "words"),
    [
        ("a,b\nx,y\n", "csv:bad.csv", "the model takes texts from one: call it 'text'"),
        ('text\nsea\n""\n', "csv:bad.csv", "row 2: there is no text"),
        ("text,y\nsea,eerie\n", "csv:bad.csv?target=y", "row 1: unknown class 'eerie'"),
        ("text\nsea\n", "csv:bad.csv?target=y", "unknown column of bad.csv for target 'y'"),
    ],
)
def test_tables_that_hold_no_texts_are_refused(
    place: Path, content: str, data: str, words: str
) -> None:
    (place / "bad.csv").write_text(content)
    done = fedcord("predict", "run", "--data", data, "--out", "none.csv", cwd=place)
    assert done.returncode == 2
    assert words in done.stderr
    assert not (place / "none.csv").exists()


def test_a_run_that_knows_numbers_only_says_so(tmp_path: Path) -> None:
    finished(tmp_path / "run", "fedavg", own_data(TEXT), rounds=1)
    model = library.load(tmp_path / "run")
    with pytest.raises(DataError, match="knows its texts by token ids only"):
        model.predict(NEW)
    with pytest.raises(DataError, match="one text was given; give a list"):
        model.predict("sea")
    finished(tmp_path / "other", "fedavg", own_data("vector"), rounds=1)
    with pytest.raises(DataError, match="texts were given; the model takes numbers as they are"):
        library.load(tmp_path / "other").predict(NEW)


def test_other_processes_are_handed_the_words(tmp_path: Path) -> None:
    out = tmp_path / "study"
    how: dict[str, Any] = {"clients": 2, "rounds": 1, "partition": "iid"}
    compare(["fedavg", "fedprox"], dataset=told_data(), seeds=1, jobs=2, out=out, **how)
    assert library.load(out / "fedprox" / "seed-0").facts.words == told_data().words


def _site(folder: Path, client: int, words: Vocabulary) -> Path:
    written, labels = texts()
    numbered = told_data().words
    assert numbered is not None
    place = folder / f"site-{client}"
    place.mkdir(parents=True)
    ids = numbered.encode(written)[client::2]
    y = np.array(["calm", "wild"])[labels[client::2]]
    np.savez(place / "a.npz", x=ids, y=y, words=words.words)
    file = place / "site.toml"
    file.write_text(f'client = {client}\nname = "clinic {client}"\ndata = "npz:a.npz?kind=text"\n')
    return file


def test_sites_agree_on_their_words_and_keep_them(tmp_path: Path) -> None:
    words = told_data().words
    assert words is not None
    files = [_site(tmp_path, k, words) for k in range(2)]
    settings = {"algorithm": "fedavg", "dataset": "sites:weather", "clients": 2, "rounds": 2}
    run(load_config(settings), Place(tmp_path / "run"), sites=sites_here(files))
    assert library.load(tmp_path / "run").facts.words == words
    kept = find_model(load_site(files[1])).model
    assert kept.facts.words == words
    other = replace(words, words=words.words[::-1])
    files[1] = _site(tmp_path / "other", 1, other)
    said = "client 'clinic 1' .1. and client 'clinic 0' .0. have not numbered the words"
    with pytest.raises(library.ConfigError, match=said):
        run(load_config(settings), Place(tmp_path / "no"), sites=sites_here(files))
