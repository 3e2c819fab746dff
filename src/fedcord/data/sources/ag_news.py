"""AG News: topic of a news item from its words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fedcord.data.checksum import Official, read_checked
from fedcord.data.dataset import Dataset, Labels, Split
from fedcord.data.download import RemoteFile
from fedcord.data.formats.labelled_csv import read_labelled_csv
from fedcord.data.locate import Search, Wanted
from fedcord.data.spec import DatasetSpec

PADDING, UNKNOWN = 0, 1
_CLASSES = ("World", "Sports", "Business", "Sci/Tech")
_ADDRESS = "https://raw.githubusercontent.com/mhjabreel/CharCnn_Keras/master/data/ag_news_csv"
_OFFICIAL = {
    "train.csv": Official(
        29_470_338, "76a0a2d2f92b286371fe4d4044640910a04a803fdd2538e0f3f29a5c6f6b672e"
    ),
    "test.csv": Official(
        1_857_427, "521465c2428ed7f02f8d6db6ffdd4b5447c1c701962353eb2c40d548c3c85699"
    ),
}
# the corpus lost the '&' of its HTML entities: "Messier #39;s", "quot;I am"
_APOSTROPHE = re.compile(r"\s?#39;")
_ENTITY = re.compile(r"#\d+;|\b(?:quot|amp|lt|gt);")
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """Token ids, int64 [N, length]: padding 0, unknown word 1, then words by falling frequency.

    The vocabulary is built on the training texts only; words at the same frequency are ordered by
    spelling, so the table is the same on every machine.
    """
    length = spec.integer("length", 200, 1, 10_000)
    size = spec.integer("vocabulary", 32_000, 3, 1_000_000)
    found = search.require(
        Wanted(
            dataset=spec.name,
            places=("ag_news_csv", "ag-news", "AG_NEWS"),
            holds=(("train.csv",), ("test.csv",)),
            remote=tuple(
                RemoteFile(
                    f"{_ADDRESS}/{file}",
                    f"ag_news_csv/{file}",
                    f"sha256:{official.sha256}",
                    official.size,
                )
                for file, official in _OFFICIAL.items()
            ),
        )
    )
    parts = []
    for file in ("train.csv", "test.csv"):
        path = found.path / file
        data = read_checked(path, found.root, _OFFICIAL[file])
        texts, labels = read_labelled_csv(path, data, len(_CLASSES))
        parts.append(([tokens(text) for text in texts], labels))
    (train_tokens, train_labels), (test_tokens, test_labels) = parts
    table = build_vocabulary(train_tokens, size)
    return Dataset(
        name=spec.name,
        kind="text",
        train=Split(encode(train_tokens, table, length), train_labels),
        test=Split(encode(test_tokens, table, length), test_labels),
        class_names=_CLASSES,
        vocabulary=len(table) + 2,
    )


def tokens(text: str) -> list[str]:
    r"""Lower-cased words and numbers of a text.

    >>> tokens("Messier #39;s quot;fine quot;: \\$1.35 Million")
    ["messier's", 'fine', '1', '35', 'million']
    """
    plain = _ENTITY.sub(" ", _APOSTROPHE.sub("'", text.lower()))
    return _WORD.findall(plain)


def build_vocabulary(texts: Iterable[Sequence[str]], size: int) -> Mapping[str, int]:
    """Ids of the most frequent words; with padding and the unknown word they make `size` ids."""
    counts: Counter[str] = Counter()
    for words in texts:
        counts.update(words)
    kept = sorted(counts, key=lambda word: (-counts[word], word))[: size - 2]
    return {word: number for number, word in enumerate(kept, UNKNOWN + 1)}


def encode(texts: Sequence[Sequence[str]], table: Mapping[str, int], length: int) -> Labels:
    """int64 [N, length]: texts cut or padded at the end."""
    ids = np.full((len(texts), length), PADDING, np.int64)
    for row, words in enumerate(texts):
        known = [table.get(word, UNKNOWN) for word in words[:length]]
        ids[row, : len(known)] = known
    return ids
