"""Examples in the code, and the script beside it, do what they show."""

from __future__ import annotations

import doctest
import importlib
import runpy
from pathlib import Path

import pytest
import torch
from torch import nn

import fedcord
from fedcord.core.rng import torch_generator
from fedcord.models.registry import network_factory
from fedcord.store.checkpoint import load_newest
from tests.docs.pages import ROOT

SOURCE = ROOT / "src"
DOCTESTED = sorted(path for path in SOURCE.rglob("*.py") if ">>> " in path.read_text())


@pytest.mark.parametrize("path", DOCTESTED, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_doctests(path: Path) -> None:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    module = importlib.import_module(name)
    examples = [test.examples for test in doctest.DocTestFinder().find(module)]
    assert sum(map(len, examples)) >= 1
    assert doctest.testmod(module).failed == 0


def test_doctests_were_found() -> None:
    assert len(DOCTESTED) >= 9


def test_the_plain_script_is_our_fedavg(reader: Path) -> None:
    script = runpy.run_path(str(ROOT / "examples/plain_fedavg.py"))
    clients, test_images, test_labels = script["load"]()
    ours = fedcord.run("fedavg", rounds=script["ROUNDS"], validation=0.0, test=0.0, out="ours")
    final = load_newest(reader / "ours/checkpoints", ours["config_hash"])
    assert final is not None
    initial = network_factory("mlp:64", kind="image", input_shape=(1, 8, 8), num_classes=10)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    start = initial(torch_generator(0, "init")).parameters()
    for parameter, value in zip(model.parameters(), start, strict=True):
        parameter.data = value.detach().clone()

    def shuffle(round_: int, client: int, num: int) -> torch.Tensor:
        generator = torch_generator(0, "batches", round_, client)
        return torch.randperm(num, generator=generator)

    script["federated_averaging"](model, clients, shuffle)
    assert script["accuracy"](model, test_images, test_labels) == pytest.approx(ours["accuracy"])
    trained = {
        f"model.linear_layers.{layer}.{kind}": getattr(model[2 * layer], kind).detach()
        for layer in (0, 1)
        for kind in ("weight", "bias")
    }
    assert trained.keys() == final.state.shared.keys()
    for name, value in trained.items():
        torch.testing.assert_close(value, final.state.shared[name], rtol=0, atol=1e-5)
