"""Texts as numbers: how a text is taken apart into words, and which word has which number."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcord.core.errors import DataError, shown

PADDING, UNKNOWN = 0, 1
"""Numbers of no word: what fills short texts, and what stands for words that are not known."""
MAX_WORDS, MAX_LENGTH = 10_000_000, 10_000
RULE = "lower-case words"
"""Name of `tokens`, by which a run says how its texts were taken apart."""

# some corpora have lost the '&' of their HTML entities: "Messier #39;s", "quot;I am"
_APOSTROPHE = re.compile(r"\s?#39;")
_ENTITY = re.compile(r"#\d+;|\b(?:quot|amp|lt|gt);")
_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")


def tokens(text: str) -> list[str]:
    r"""Lower-cased words and numbers of a text.

    >>> tokens("Messier #39;s quot;fine quot;: \\$1.35 Million")
    ["messier's", 'fine', '1', '35', 'million']
    """
    plain = _ENTITY.sub(" ", _APOSTROPHE.sub("'", text.lower()))
    return _WORD.findall(plain)


@dataclass(frozen=True)
class Vocabulary:
    """The words that a model knows.

    Attributes:
        words: those with the numbers 2, 3 and so on.
        length: numbers of one text; longer ones are cut, shorter ones filled, at the end.
    """

    words: tuple[str, ...]
    length: int

    def __post_init__(self) -> None:
        problem = _problem(self.words, self.length)
        if problem:
            raise DataError(f"vocabulary: {problem}.")

    @staticmethod
    def of(texts: Iterable[str], size: int = 32_000, length: int = 200) -> Vocabulary:
        """The most frequent words of texts; give those of the training part only.

        Args:
            texts: as they are written.
            size: how many numbers there are, that of padding and of the unknown word included.
            length: numbers of one text.
        """
        return Vocabulary.of_tokens(map(tokens, texts), size, length)

    @staticmethod
    def of_tokens(texts: Iterable[Sequence[str]], size: int, length: int) -> Vocabulary:
        """The same of texts that were taken apart by `tokens`.

        Words at the same frequency are ordered by spelling, so the list is the same on every
        machine.
        """
        counts: Counter[str] = Counter()
        for words in texts:
            counts.update(words)
        kept = sorted(counts, key=lambda word: (-counts[word], word))[: size - 2]
        return Vocabulary(tuple(kept), length)

    @property
    def size(self) -> int:
        """How many numbers there are: words, padding and the unknown word."""
        return len(self.words) + 2

    @cached_property
    def _number(self) -> Mapping[str, int]:
        return {word: number for number, word in enumerate(self.words, UNKNOWN + 1)}

    def numbers(self, texts: Sequence[Sequence[str]]) -> NDArray[np.int64]:
        """Texts that were taken apart, int64 [N, length]."""
        ids = np.full((len(texts), self.length), PADDING, np.int64)
        for row, words in enumerate(texts):
            known = [self._number.get(word, UNKNOWN) for word in words[: self.length]]
            ids[row, : len(known)] = known
        return ids

    def encode(self, texts: Iterable[str]) -> NDArray[np.int64]:
        """Texts as they are written, int64 [N, length]."""
        return self.numbers([tokens(text) for text in texts])

    @property
    def digest(self) -> str:
        """Differs between any two that number texts differently."""
        return hashlib.sha256(json.dumps(self.to_json()).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Plain values only."""
        return {"rule": RULE, "length": self.length, "words": list(self.words)}

    @staticmethod
    def from_json(values: object) -> Vocabulary:
        """What `to_json` was made from, every value checked."""
        if not isinstance(values, Mapping) or values.keys() != {"rule", "length", "words"}:
            raise DataError(f"{shown(values)} is no vocabulary.")
        if values["rule"] != RULE:
            raise DataError(
                f"texts were taken apart by the rule {shown(values['rule'])}; this version knows "
                f"'{RULE}'."
            )
        words = values["words"]
        if not isinstance(words, list | tuple):
            raise DataError(f"vocabulary: words are {shown(words)}; a list is needed.")
        return Vocabulary(tuple(words), values["length"])


def _problem(words: Sequence[object], length: object) -> str | None:
    if not isinstance(length, int) or isinstance(length, bool) or not 1 <= length <= MAX_LENGTH:
        return f"length is {shown(length)}; give a whole number from 1 to {MAX_LENGTH}"
    if len(words) > MAX_WORDS:
        return f"{len(words):,} words; at most {MAX_WORDS:,} are allowed"
    odd = next((word for word in words if not isinstance(word, str) or not word), None)
    if odd is not None:
        return f"{shown(odd)} is no word"
    if len(set(words)) < len(words):
        return f"{shown(Counter(words).most_common(1)[0][0])} is there twice; give each word once"
    return None
