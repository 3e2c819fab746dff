"""Every number from sums against scikit-learn's from the examples themselves."""

import json
import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from sklearn import metrics as sk
from torch import Tensor

from fedcord.core.errors import ProtocolError
from fedcord.metrics.calibration import calibration_error
from fedcord.metrics.counting import Tally
from fedcord.metrics.registry import METRICS
from fedcord.metrics.sums import CODES, COUNTS, Detail, Evaluation

EVERYTHING = Detail(confusion=True, scores=True)


def _drawn(num_classes: int, count: int = 900, size: float = 1.0) -> tuple[Tensor, Tensor]:
    """Scores that know something about unequal labels; all classes occur."""
    source = torch.Generator().manual_seed(num_classes)
    shares = torch.arange(1.0, num_classes + 1)
    labels = torch.multinomial(shares, count, replacement=True, generator=source)
    labels[:num_classes] = torch.arange(num_classes)
    scores = torch.randn(count, num_classes, generator=source)
    scores[torch.arange(count), labels] += 1.0
    return size * scores, labels


def _sums(scores: Tensor, labels: Tensor, detail: Detail = EVERYTHING) -> Evaluation:
    tally = Tally(scores.shape[1], detail)
    tally.add(scores, labels, {})
    return tally.sums({})


def _parts(scores: Tensor, labels: Tensor, size: int) -> Iterator[Evaluation]:
    for own_scores, own_labels in zip(scores.split(size), labels.split(size), strict=True):
        yield _sums(own_scores, own_labels)


def _travelled(sums: Evaluation) -> Evaluation:
    return Evaluation.from_plain(json.loads(json.dumps(sums.plain())), sums.tensors())


@pytest.mark.parametrize("num_classes", [2, 3, 10])
def test_numbers_from_parts_are_those_of_scikit_learn(num_classes: int) -> None:
    scores, labels = _drawn(num_classes)
    whole = sum(map(_travelled, _parts(scores, labels, 101)), Evaluation())
    found = whole.metrics(num_classes)
    truth, answers = labels.numpy(), scores.argmax(1).numpy()
    wanted = {
        "accuracy": sk.accuracy_score(truth, answers),
        "balanced_accuracy": sk.balanced_accuracy_score(truth, answers),
        "macro_precision": sk.precision_score(truth, answers, average="macro"),
        "macro_f1": sk.f1_score(truth, answers, average="macro"),
        "log_loss": sk.log_loss(truth, scores.double().softmax(1).numpy()),
    }
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=1e-9)
    matrix = sk.confusion_matrix(truth, answers)
    assert whole.confusion == {
        (int(a), int(b)): int(matrix[a, b]) for a, b in zip(*np.nonzero(matrix), strict=True)
    }
    each = sk.precision_recall_fscore_support(truth, answers)
    for label in range(num_classes):
        own = whole.by_class[label]
        ours = (own.precision, own.recall, own.f1, own.total)
        assert ours == pytest.approx(tuple(column[label] for column in each))


@pytest.mark.parametrize("num_classes", [2, 3, 10])
@pytest.mark.parametrize("size", [0.05, 1.0, 60.0], ids=["ridge", "network", "overconfident"])
def test_ranking_is_that_of_scikit_learn_within_the_bound_it_tells(
    num_classes: int, size: float
) -> None:
    scores, labels = _drawn(num_classes, size=size)
    whole = sum(map(_travelled, _parts(scores, labels, 101)), Evaluation())
    found = whole.ranked(num_classes)
    # by log-odds, as probabilities of 1 - 1e-20 are all 1 in floating point
    odds = torch.stack([_exact_odds(scores.double(), c) for c in range(num_classes)], 1).numpy()
    truth = np.eye(num_classes)[labels.numpy()]
    wanted = {
        "auroc": sk.roc_auc_score(truth, odds, average="macro"),
        "average_precision": sk.average_precision_score(truth, odds, average="macro"),
    }
    if num_classes == 2:
        wanted["average_precision"] = sk.average_precision_score(labels.numpy(), odds[:, 1])
    for name, exact in wanted.items():
        assert abs(found[name].value - exact) <= found[name].error + 1e-12
        assert found[name].error < 0.01
        assert abs(found[name].value - exact) < 0.001


def _exact_odds(scores: Tensor, label: int) -> Tensor:
    rest = [c for c in range(scores.shape[1]) if c != label]
    return scores[:, label] - scores[:, rest].logsumexp(dim=1)


def test_equal_scores_count_half_as_scikit_learn_has_it() -> None:
    labels = torch.tensor([0, 1, 0, 1, 1, 0])
    scores = torch.stack([torch.zeros(6), torch.tensor([0.0, 0.0, -1.0, 1.0, 1.0, 1.0])], 1)
    found = _sums(scores, labels).ranked(2)
    rank = scores[:, 1].numpy()
    assert found["auroc"].value == pytest.approx(sk.roc_auc_score(labels.numpy(), rank))
    exact = sk.average_precision_score(labels.numpy(), rank)
    assert found["average_precision"].value == pytest.approx(exact)


def test_the_bound_holds_in_a_coarse_histogram() -> None:
    """Thousands of scores in a few bins: far from exact, but never further than it says."""
    rng = np.random.default_rng(3)
    furthest = 0.0
    for _ in range(30):
        labels = torch.from_numpy(rng.integers(0, 2, 400))
        scale = 10.0 ** rng.uniform(-5, -3)
        own = torch.from_numpy(scale * (rng.normal(size=400) + rng.uniform(0, 3) * labels.numpy()))
        found = _sums(torch.stack([torch.zeros(400), own], 1), labels).ranked(2)
        exact = {
            "auroc": sk.roc_auc_score(labels.numpy(), own.numpy()),
            "average_precision": sk.average_precision_score(labels.numpy(), own.numpy()),
        }
        for name, value in exact.items():
            gap = abs(found[name].value - value)
            assert gap <= found[name].error + 1e-12
            furthest = max(furthest, gap)
    assert furthest > 0.002  # or the bound was not tried


@pytest.mark.parametrize("num_classes", [2, 10])
def test_calibration_error_is_what_a_loop_over_bins_finds(num_classes: int) -> None:
    scores, labels = _drawn(num_classes)
    whole = sum(_parts(scores, labels, 101), Evaluation())
    probabilities = scores.double().softmax(1)
    total = 0.0
    for number in range(15):
        low, high = number / 15, (number + 1) / 15
        inside = [
            (float(p.max()), int(p.argmax()) == int(label))
            for p, label in zip(probabilities, labels, strict=True)
            if low < float(p.max()) <= high
        ]
        if inside:
            right = sum(hit for _, hit in inside) / len(inside)
            sure = sum(p for p, _ in inside) / len(inside)
            total += len(inside) / len(labels) * abs(right - sure)
    assert whole.metrics(num_classes)["calibration_error"] == pytest.approx(total, abs=1e-9)
    assert total > 0.01


def test_certain_answers_have_no_calibration_error_and_nothing_has_none() -> None:
    sure = _sums(torch.tensor([[50.0, 0.0], [0.0, 50.0]]), torch.tensor([0, 1]))
    assert calibration_error(sure.calibration) == pytest.approx(0.0, abs=1e-12)
    assert calibration_error({}) is None


def test_a_class_that_is_answered_but_never_there_counts_for_f1_only() -> None:
    labels, answers = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 2, 1, 1])
    found = _sums(torch.eye(3)[answers], labels).metrics(3)
    wanted = sk.f1_score(labels.numpy(), answers.numpy(), average="macro", zero_division=0)
    assert found["macro_f1"] == pytest.approx(wanted)
    assert found["balanced_accuracy"] == pytest.approx(0.75)


def test_one_class_alone_has_no_ranking_but_all_else() -> None:
    found = _sums(torch.randn(5, 2), torch.zeros(5, dtype=torch.long)).metrics(2)
    assert found.keys() == METRICS.keys() - {
        *("auroc", "average_precision", "client_accuracy", "worst_client", "client_deviation")
    }


def test_scores_that_are_infinite_leave_the_rest_countable() -> None:
    scores = torch.tensor([[math.inf, 0.0], [0.0, 1.0]])
    sums = _travelled(_sums(scores, torch.tensor([0, 1])))
    found = sums.metrics(2)
    assert found["accuracy"] == 1
    assert "log_loss" not in found
    assert "calibration_error" not in found


def test_what_one_part_did_not_count_is_unknown_of_the_whole() -> None:
    scores, labels = _drawn(3, 60)
    known = _sums(scores, labels)
    unknown = _sums(scores, labels, Detail())
    assert (known + unknown).confusion is None
    assert (unknown + known).scores is None
    assert (Evaluation() + known) == known
    assert (known + Evaluation()).confusion == known.confusion


def test_details_that_nobody_asked_for_take_no_bytes() -> None:
    scores, labels = _drawn(10, 250)
    plain = _sums(scores, labels, Detail())
    assert "confusion" not in plain.plain()
    assert plain.tensors() == {}
    assert Detail().options() == {}
    assert Detail.of(EVERYTHING.options()) == EVERYTHING
    assert len(json.dumps(plain.plain())) < 1000


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("correct", -1, "not a whole number"),
        ("total", 1.5, "not a whole number"),
        ("total", True, "not a whole number"),
        ("loss_sum", "much", "not a number"),
        ("loss_sum", -1.0, "not between"),
        ("by_class", [[0, 5, 3, 9]], "not a whole number from 0 to 3"),
        ("by_class", [[0, 1, 3, 9]], "add up"),
        ("by_class", None, "not iterable"),
        ("by_class", [[0, 1]], "unpack"),
        ("calibration", [[99, 1, 1, 0.5]], "from 0 to 14"),
        ("calibration", [[0, 1, 1, 7.0]], "not between"),
        ("confusion", [[0, 0, 1]], "the confusion matrix add up to 1"),
        ("by_rule", {"a": 10**6}, "from 0 to 60"),
        ("groups", [["domain", 0, 3, 2]], "from 0 to 2"),
    ],
)
def test_sums_that_cannot_be_are_refused(key: str, value: object, words: str) -> None:
    values = {**_sums(*_drawn(3, 60)).plain(), key: value}
    with pytest.raises(ProtocolError, match=words):
        Evaluation.from_plain(values)


@pytest.mark.parametrize(
    ("codes", "counts", "words"),
    [
        ([1, 0], [1, 1], "what cannot be"),
        ([-2, 0], [1, 1], "what cannot be"),
        ([0, 1], [1, 0], "what cannot be"),
        ([0, 1], [1, 1000], "what cannot be"),
        ([0, 1, 2], [1, 1], "3 bins of scores have 2"),
    ],
)
def test_histograms_that_cannot_be_are_refused(
    codes: list[int], counts: list[int], words: str
) -> None:
    values = _sums(*_drawn(3, 60)).plain()
    tensors = {CODES: torch.tensor(codes), COUNTS: torch.tensor(counts, dtype=torch.int32)}
    with pytest.raises(ProtocolError, match=words):
        Evaluation.from_plain(values, tensors)
    with pytest.raises(ProtocolError, match="not of whole numbers"):
        Evaluation.from_plain(values, {**tensors, COUNTS: tensors[COUNTS].float()})


def test_secret_classes_stay_secret_in_the_whole() -> None:
    scores, labels = _drawn(3, 60)
    secret = _travelled(_sums(scores, labels).without_classes())
    whole = secret + _sums(scores, labels)
    for sums in (secret, whole):
        assert sums.by_class == {}
        assert sums.balanced_accuracy is None
        assert sums.metrics(3).keys() == {"accuracy", "log_loss", "calibration_error"}
    assert (Evaluation() + secret) == secret
