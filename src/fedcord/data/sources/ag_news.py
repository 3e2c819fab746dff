"""AG News: topic of a news item from its words."""

from __future__ import annotations

from fedcord.data.checksum import Official, read_checked
from fedcord.data.dataset import Dataset, Split
from fedcord.data.download import RemoteFile
from fedcord.data.formats.labelled_csv import read_labelled_csv
from fedcord.data.locate import Search, Wanted
from fedcord.data.spec import DatasetSpec
from fedcord.data.vocabulary import Vocabulary, tokens

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


def load(spec: DatasetSpec, search: Search) -> Dataset:
    """Token ids, int64 [N, length]: padding 0, unknown word 1, then words by falling frequency.

    The vocabulary is built on the training texts only.
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
    words = Vocabulary.of_tokens(train_tokens, size, length)
    return Dataset(
        name=spec.name,
        kind="text",
        train=Split(words.numbers(train_tokens), train_labels),
        test=Split(words.numbers(test_tokens), test_labels),
        class_names=_CLASSES,
        vocabulary=words.size,
        words=words,
    )
