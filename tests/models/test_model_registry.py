"""Choosing a network by text: the words for every mistake, and no torch until one is built."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from fedcord.core.errors import ConfigError
from fedcord.models.registry import MODELS, auto_model, check_model, network_factory
from fedcord.models.spec import ModelSpec, parse_sizes, parse_spec


def test_table_is_whole() -> None:
    assert set(MODELS) == {
        *("auto", "logistic", "mlp", "cnn", "mobilenet", "text", "frozen"),
        *("resnet10", "resnet12", "resnet18", "resnet20", "resnet34"),
    }
    for name, info in MODELS.items():
        assert info.summary, name
        assert bool(info.argument) == bool(info.argument_field), name
        assert parse_spec(info.example).name == name


def test_importing_and_checking_needs_no_torch() -> None:
    code = (
        "import sys\n"
        "from fedcord.models.registry import MODELS, check_model\n"
        "assert check_model('cnn', kind='image', input_shape=(1, 8, 8)) == []\n"
        "assert check_model('nothing') and len(MODELS) > 5\n"
        "assert 'torch' not in sys.modules\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("logistic", ModelSpec("logistic", "", {})),
        ("mlp:100-50", ModelSpec("mlp", "100-50", {})),
        ("cnn:32-64,kernel=5,fc=512", ModelSpec("cnn", "32-64", {"kernel": 5, "fc": 512})),
        ("mobilenet,width=0.5", ModelSpec("mobilenet", "", {"width": 0.5})),
        ("frozen:hf:a/b,size=32", ModelSpec("frozen", "hf:a/b", {"size": 32})),
        (
            "frozen:file=x/y.safetensors,arch=resnet18",
            ModelSpec("frozen", "", {"file": "x/y.safetensors", "arch": "resnet18"}),
        ),
    ],
)
def test_parse(text: str, wanted: ModelSpec) -> None:
    assert parse_spec(text) == wanted


def test_parse_sizes() -> None:
    assert parse_sizes("100-50") == (100, 50)
    assert parse_sizes("7") == (7,)
    for wrong in ("", "-", "0", "3-", "a", "3.5", "-4", "²"):
        assert parse_sizes(wrong) is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("resnet1", r"unknown model 'resnet1'; did you mean 'resnet1\d'\? Allowed: auto, cnn"),
        ("", "unknown model ''"),
        ("logistic:5", "logistic takes nothing after the colon; write it like logistic"),
        ("mlp:10x", "'10x' is not a list of whole numbers from 1 joined by dashes"),
        ("mlp:0", "'0' is not a list of whole numbers"),
        ("mlp,hiden=4", "unknown parameter 'hiden'; did you mean 'hidden'"),
        ("cnn,kernel=4", "kernel=4 is even"),
        ("cnn,kernel=five", "kernel = 'five': must be of type int"),
        ("cnn,fc", "'fc' is not key=value"),
        ("cnn:8-8-8-8", "images of 8×8 shrink to nothing after 4 convolutions"),
        ("cnn:32-64,kernel=5", "use kernel=3, padding=same or fewer convolutions"),
        ("resnet10", "8×8 are too small for batch normalisation .* use norm=group"),
        ("resnet18,norm=layer", "norm = 'layer': must be one of batch, group"),
        ("resnet18,blocks=1-1-1", "blocks=1-1-1: there are 4 stages; write it like blocks=2-2-2-2"),
        ("mlp:183196016", "hidden = .*183196016.*: must be >= 1 and <= 65536"),
        ("cnn,kernel=4095", "kernel = 4095: must be >= 1 and <= 255"),
        ("mobilenet,width=9", "width = 9: must be >= 0.1 and <= 4"),
        ("text", "reads text inputs, not image; choose one of auto, logistic"),
        ("frozen", "give one encoder"),
        ("frozen:pixel", "unknown encoder 'pixel'; did you mean 'pixels'"),
        ("frozen:file=no.safetensors,arch=cnn", "there is no file no.safetensors"),
        ("frozen:file=no.safetensors", "needs arch=MODEL"),
    ],
)
def test_mistakes_in_words(spec: str, words: str) -> None:
    (problem,) = check_model(spec, kind="image", input_shape=(1, 8, 8))
    with pytest.raises(ConfigError, match=words):
        raise ConfigError(problem)
    with pytest.raises(ConfigError, match=words):
        network_factory(spec, kind="image", input_shape=(1, 8, 8), num_classes=2)


def test_every_mistake_is_reported_together() -> None:
    assert len(check_model("resnet10,wdth=4,norm=x")) == 2


def test_kind_and_shape_must_agree() -> None:
    with pytest.raises(ConfigError, match="image inputs have the shape"):
        network_factory("mlp", kind="image", input_shape=(64,), num_classes=2)
    assert "did you mean 'image'" in check_model("mlp", kind="images")[0]
    with pytest.raises(ConfigError, match="vocabulary is 0; give the number of token ids"):
        network_factory("text", kind="text", input_shape=(5,), num_classes=2)
    with pytest.raises(ConfigError, match="0 classes"):
        network_factory("mlp", kind="vector", input_shape=(5,), num_classes=0)


def test_good_choices_have_no_problems() -> None:
    for name, info in MODELS.items():
        if name != "frozen":
            assert check_model(info.example) == []
    assert check_model("frozen:pixels", kind="vector", input_shape=(4,)) == []
    assert check_model("resnet10,norm=group", kind="image", input_shape=(1, 8, 8)) == []


@pytest.mark.parametrize("spec", ["cnn,width=65536", "mlp:65536-65536-65536", "mlp:65536"])
def test_networks_beyond_memory_are_refused_before_they_are_made(
    spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedcord.models.initial.data_limit", lambda: 10_000_000)
    factory = network_factory(spec, kind="image", input_shape=(1, 8, 8), num_classes=2)
    words = r"model '\w+': the network would have [\d,]+ weights, .* GB; at most 0.01 GB, a quarter"
    with pytest.raises(ConfigError, match=words):
        factory(None)


def test_missing_weights_name_the_folders(tmp_path: Path) -> None:
    (problem,) = check_model("frozen:efficientnet-lite0", data_dirs=[tmp_path])
    assert str(tmp_path) in problem
    assert "FEDCORD_DATA" in problem


def test_auto_by_kind_and_size() -> None:
    assert auto_model("image", (1, 8, 8)) == "mlp:64"
    assert auto_model("image", (3, 32, 32)) == "cnn"
    assert auto_model("vector", (20,)) == "mlp:200"
    assert auto_model("text", (200,)) == "text"


def test_factories_compare_by_value() -> None:
    def choose(spec: str) -> object:
        return network_factory(spec, kind="image", input_shape=(1, 8, 8), num_classes=2)

    assert choose("auto") == choose("mlp:64")
    assert choose("mlp:64") != choose("mlp:65")
    # multiprocessing hands factories to spawned workers this way
    assert pickle.loads(pickle.dumps(choose("cnn"))) == choose("cnn")
