"""Counts of predictions against scikit-learn, and parts that add up."""

import json
from dataclasses import dataclass

import pytest
import torch
from sklearn.metrics import accuracy_score, balanced_accuracy_score

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.core.contract import Env, Predictor
from fedcord.core.errors import NumericalError, ProtocolError
from fedcord.core.examples import Examples
from fedcord.core.task import HeldNetwork, Task
from fedcord.core.tensors import Tensors
from fedcord.engine.evaluation import BATCH, evaluate
from fedcord.metrics.sums import Evaluation
from tests import federation

METHOD, ENV = FedAvg(), federation.env()
SHARED = METHOD.init(ENV).shared


def _unequal(without: int) -> Examples:
    """Hundreds of examples of one class, tens of another, none of the third."""
    drawn = federation.examples(4 * BATCH, seed=5)
    rare = (without + 1) % 3
    chosen = (drawn.labels != without) & ((drawn.labels != rare) | (torch.arange(4 * BATCH) < 99))
    return Examples(drawn.inputs[chosen], drawn.labels[chosen])


@pytest.mark.parametrize("without", [0, 1, 2])
def test_balanced_accuracy_is_that_of_scikit_learn(without: int) -> None:
    test = _unequal(without)
    found = evaluate(METHOD, SHARED, {}, test, ENV)
    guessed = METHOD.predictor(SHARED, {}, ENV).scores(test.inputs).argmax(1).numpy()
    truth = test.labels.numpy()
    present = torch.tensor(guessed) != without  # scikit-learn warns of guesses that are nowhere
    assert found.accuracy == pytest.approx(accuracy_score(truth, guessed))
    elsewhere = torch.where(present, torch.tensor(guessed), _another_wrong(test, without)).numpy()
    assert found.balanced_accuracy is not None
    assert found.balanced_accuracy == pytest.approx(balanced_accuracy_score(truth, elsewhere))
    assert abs(found.balanced_accuracy - found.accuracy) > 0.01
    seen = {label for label, own in found.by_class.items() if own.total}
    assert seen == {0, 1, 2} - {without}


def _another_wrong(test: Examples, without: int) -> torch.Tensor:
    """For every example a class that exists and is not its own."""
    one, two = sorted({0, 1, 2} - {without})
    return torch.where(test.labels == one, two, one)


def test_parts_add_up_to_the_whole_and_survive_a_journey() -> None:
    test = _unequal(without=1)
    whole = evaluate(METHOD, SHARED, {}, test, ENV)
    parts = [
        evaluate(METHOD, SHARED, {}, test, ENV, first=start, last=min(start + BATCH, len(test)))
        for start in range(0, len(test), BATCH)
    ]
    assert len(parts) > 1
    travelled = [Evaluation.from_plain(json.loads(json.dumps(part.plain()))) for part in parts]
    assert sum(travelled, Evaluation()) == whole


def test_equal_classes_leave_nothing_to_balance() -> None:
    drawn = federation.examples(900, seed=6)
    rows = torch.cat([(drawn.labels == label).nonzero()[:200, 0] for label in range(3)])
    found = evaluate(METHOD, SHARED, {}, Examples(drawn.inputs[rows], drawn.labels[rows]), ENV)
    assert found.balanced_accuracy == pytest.approx(found.accuracy, abs=1e-12)


def test_weights_are_loaded_once_however_many_batches_follow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loads = []
    held = Task.held_network

    def counted(task: Task, tensors: Tensors, client: int | None = None) -> HeldNetwork:
        loads.append(client)
        return held(task, tensors, client)

    monkeypatch.setattr(Task, "held_network", counted)
    monkeypatch.delattr(Task, "network_with")  # the other way to load
    assert evaluate(METHOD, SHARED, {}, federation.examples(600, seed=7), ENV).total == 600 > BATCH
    assert loads == [None]


def test_scores_of_another_form_are_refused() -> None:
    @dataclass(frozen=True)
    class Odd(FedAvg):
        def predictor(self, shared: Tensors, memory: Tensors, env: Env) -> Predictor:
            answer = torch.full((1, 3 + self.more), self.fill)
            return Predictor(lambda inputs: answer.expand(len(inputs), -1))

        more: int = 0
        fill: float = 0.0

    test = federation.examples(5, seed=8)
    with pytest.raises(ProtocolError, match=r"the predictor returned shape \[5, 4\], expected"):
        evaluate(Odd(more=1), SHARED, {}, test, ENV)
    with pytest.raises(NumericalError, match="the predictor returned NaN in round 0"):
        evaluate(Odd(fill=torch.nan), SHARED, {}, test, ENV)
