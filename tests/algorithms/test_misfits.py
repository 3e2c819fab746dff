"""What would only fail while training is told before a run, and nothing is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fedcord.algorithms.hyperprototype.fedhpro import FedHPro
from fedcord.algorithms.oneshot.baselines.feddf import FedDF
from fedcord.algorithms.oneshot.baselines.otfusion import OTFusion
from fedcord.core.contract import Algorithm
from fedcord.core.task import Task
from tests.cli.command import fedcord

QUICK = ("--clients", "2", "--partition", "iid", "--out", "run")
IFFI = ("--set", "objective.contrastive=supcon", "--set", "server.kind=iffi")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Data of token ids."""
    folder = tmp_path_factory.mktemp("text")
    tokens, labels = np.arange(60).reshape(20, 3) % 7, np.arange(20) % 2
    np.savez(folder / "t.npz", x_train=tokens, y_train=labels, x_test=tokens, y_test=labels)
    return f"npz:{folder / 't.npz'}?kind=text"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("dense",), "not for token ids"),
        (("co-boosting",), "not for token ids"),
        (("feddf",), "not for token ids"),
        (("feddf", "--set", "proxy=noise"), "not for token ids"),
        (("feddf", "--set", "proxy=file", "--set", "proxy_file=gone.npy"), "does not exist"),
        (("fafi", *IFFI), "token ids cannot be"),
    ],
    ids=" ".join,
)
def test_methods_that_make_inputs_refuse_text_before_anything_is_written(
    words: tuple[str, ...], reason: str, text: str, tmp_path: Path
) -> None:
    done = fedcord("run", *words, "--dataset", text, *QUICK, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert reason in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_prototypes_are_not_trained_towards_anchors_that_are_not_there(tmp_path: Path) -> None:
    kind = "server.kind=trainable_protos"
    done = fedcord("run", "fafi", "--set", kind, *QUICK, cwd=tmp_path)
    assert done.returncode == 2
    assert "trains prototypes from and towards anchors, but anchors.kind = 'none'" in done.stderr
    assert list(tmp_path.iterdir()) == []


class Branching(nn.Module):
    """A network that no library has: it looks at its input, and its head is no linear layer."""

    feature_dim = 4

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.head = nn.Sequential(nn.Linear(4, 2))

    def features(self, inputs: Tensor) -> Tensor:
        found: Tensor = self.body(inputs)
        return found if bool(inputs.sum() > 0) else -found

    def classify(self, features: Tensor) -> Tensor:
        scores: Tensor = self.head(features)
        return scores

    def forward(self, inputs: Tensor) -> Tensor:
        return self.classify(self.features(inputs))


@pytest.mark.parametrize(
    ("algorithm", "reason"),
    [
        (FedHPro(), "fedhpro needs a linear classifier with a bias named `head`, which Branching"),
        (OTFusion(), "needs a forward pass that can be traced, and that of Branching cannot"),
    ],
)
def test_networks_that_do_not_fit_are_refused_by_the_review(
    algorithm: Algorithm, reason: str
) -> None:
    strange = Task(2, (4,), [lambda generator: Branching()], lambda stored: stored)
    (error,) = algorithm.review(strange).errors
    assert reason in error
    plain = Task(2, (4,), [lambda generator: _Plain()], lambda stored: stored)
    assert algorithm.review(plain).errors == ()


class _Plain(Branching):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 2)  # type: ignore[assignment]

    def features(self, inputs: Tensor) -> Tensor:
        return torch.relu(self.body(inputs))


def test_a_file_of_inputs_needs_no_generator(tmp_path: Path) -> None:
    np.save(tmp_path / "inputs.npy", np.zeros((5, 3), dtype=np.int64))
    tokens = Task(2, (3,), [lambda generator: _Plain()], lambda stored: stored.long())
    method = FedDF(proxy="file", proxy_file=str(tmp_path / "inputs.npy"))
    assert method.review(tokens).errors == ()
    assert FedDF(steps=0).review(tokens).errors == ()
    assert len(FedDF().review(tokens).errors) == 1
