"""Texts as numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedcord.core.errors import DataError
from fedcord.data.dataset import Dataset, Split
from fedcord.data.facts import DataFacts
from fedcord.data.registry import load_dataset
from fedcord.data.vocabulary import Vocabulary, tokens


def test_vocabulary_keeps_the_most_frequent_words() -> None:
    known = Vocabulary.of(["b a C", "c, a", "c"], 4, 3)
    assert known.words == ("c", "a")
    assert known.size == 4
    assert known.numbers([["a", "zebra"], []]).tolist() == [[3, 1, 0], [0, 0, 0]]
    assert known.encode(["A zebra!", "c, C; c c"]).tolist() == [[3, 1, 0], [2, 2, 2]]


def test_tokens_mend_the_corpus_entities() -> None:
    assert tokens("Messier #39;s quot;fine quot; \\$1.35 #151; AT amp;T") == [
        *("messier's", "fine", "1", "35", "at", "t")
    ]


def test_it_is_written_down_and_read_again() -> None:
    known = Vocabulary(("war", "peace"), 5)
    read = Vocabulary.from_json(json.loads(json.dumps(known.to_json())))
    assert read == known
    assert read.digest == known.digest
    others = Vocabulary(("peace", "war"), 5), Vocabulary(("war", "peace"), 6)
    assert len({known.digest, *(other.digest for other in others)}) == 3


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rule": "letters"}, "taken apart by the rule 'letters'; this version knows"),
        ({"length": 0}, "length is 0; give a whole number from 1"),
        ({"length": True}, "length is True"),
        ({"words": ["a", "a"]}, "'a' is there twice"),
        ({"words": ["a", 3]}, "3 is no word"),
        ({"words": "abc"}, "a list is needed"),
        ({"more": 1}, "is no vocabulary"),
    ],
)
def test_what_is_no_vocabulary_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(DataError, match=words):
        Vocabulary.from_json({**Vocabulary(("a",), 2).to_json(), **change})


def test_facts_hold_the_words_of_their_token_ids_and_no_others() -> None:
    ids = np.array([[2, 1], [3, 0]])
    part = Split(ids, np.array([0, 1]))
    known = Vocabulary(("a", "b"), 2)
    data = Dataset("texts", "text", part, part, ("x", "y"), vocabulary=4, words=known)
    facts = DataFacts.of(data)
    plain = json.loads(json.dumps(facts.plain()))
    assert DataFacts.from_plain(plain) == facts
    del plain["words"]  # as older versions wrote it
    assert DataFacts.from_plain(plain).words is None
    plain["words"] = Vocabulary(("a", "b", "c"), 2).to_json()
    with pytest.raises(DataError, match="words of a task are not those of its token ids"):
        DataFacts.from_plain(plain)
    with pytest.raises(DataError, match="give the words that the token ids were made by"):
        Dataset("texts", "text", part, part, ("x", "y"), vocabulary=5, words=known)


def test_a_file_of_token_ids_may_bring_their_words(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    x, y = np.array([[2, 3], [3, 1]] * 10), np.array([0, 1] * 10)
    np.savez(path, x=x, y=y, words=["a", "b", "c"])
    data = load_dataset(f"npz:{path}?kind=text")
    assert data.words == Vocabulary(("a", "b", "c"), 2)
    assert data.vocabulary == 5
    np.savez(path, x=x, y=y, words=["a"])
    with pytest.raises(DataError, match="token ids run from"):
        load_dataset(f"npz:{path}?kind=text")
    np.savez(path, x=x, y=y, words=[1, 2])
    with pytest.raises(DataError, match="expected the words with the token ids 2, 3"):
        load_dataset(f"npz:{path}?kind=text")
    np.savez(path, x=x, y=y, words=["a", "a", "b"])
    with pytest.raises(DataError, match="'a' is there twice"):
        load_dataset(f"npz:{path}?kind=text")
