"""What every network promises, and the exact sizes the specs state."""

from __future__ import annotations

from typing import cast

import pytest
import torch
from torch import Tensor, nn

from fedcord.core.errors import ConfigError
from fedcord.core.task import Network, load_into, tensors_of
from fedcord.core.tensors import hash_tensors
from fedcord.models.mlp import MLP
from fedcord.models.registry import network_factory

LIGHT_IMAGE_MODELS = (
    "auto",
    "logistic",
    "mlp:20-10",
    "cnn",
    "cnn,width=8,fc=32",
    "resnet10,width=8,norm=group",
    "mobilenet,width=0.25,norm=group",
    "frozen:pixels",
    "frozen:random-conv,filters=16",
)
BATCH_NORM_MODELS = ("resnet10,width=8", "resnet12,width=4", "mobilenet,width=0.25")
SIZES = ((1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 64, 64), (3, 20, 33))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make(
    spec: str, shape: tuple[int, ...] = (3, 32, 32), seed: int = 0, num_classes: int = 10
) -> nn.Module:
    factory = network_factory(spec, kind="image", input_shape=shape, num_classes=num_classes)
    return factory(generator(seed))


def images(count: int, shape: tuple[int, ...]) -> Tensor:
    return torch.randn(count, *shape, generator=generator(5))


def num_parameters(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


@pytest.mark.parametrize(
    ("spec", "shape", "wanted"),
    [
        ("logistic", (1, 28, 28), 7850),
        ("mlp:100", (1, 28, 28), 784 * 100 + 100 + 1010),
        ("cnn:32-64,kernel=5,fc=512", (1, 28, 28), 582_026),
        ("resnet10", (3, 32, 32), 1_228_970),
        ("resnet10", (3, 64, 64), 1_228_970),
        ("resnet18", (3, 32, 32), 11_173_962),
    ],
)
def test_parameter_counts_prototype_12_1(spec: str, shape: tuple[int, ...], wanted: int) -> None:
    assert num_parameters(make(spec, shape)) == wanted


@pytest.mark.parametrize(
    ("spec", "blocks", "feature_dim"),
    [
        ("resnet10", [1, 1, 1, 1], 256),
        ("resnet12", [2, 1, 1, 1], 512),
        ("resnet18", [2, 2, 2, 2], 512),
        ("resnet20", [1, 3, 3, 3], 512),
        ("resnet34", [3, 4, 6, 3], 512),
    ],
)
def test_resnet_depths_prototype_12_2(spec: str, blocks: list[int], feature_dim: int) -> None:
    factory = network_factory(spec, kind="image", input_shape=(3, 32, 32), num_classes=10)
    network = factory(None)
    assert [
        len(cast(nn.Sequential, stage)) for stage in network.get_submodule("blocks").children()
    ] == blocks
    assert cast(Network, network).feature_dim == feature_dim


@pytest.mark.parametrize("shape", SIZES)
@pytest.mark.parametrize("spec", LIGHT_IMAGE_MODELS)
def test_shapes_and_halves(spec: str, shape: tuple[int, ...]) -> None:
    network = make(spec, shape, num_classes=7)
    assert isinstance(network, Network)
    x = images(3, shape)
    features = network.features(x)
    assert features.shape == (3, network.feature_dim)
    scores = network.classify(features)
    assert scores.shape == (3, 7)
    torch.testing.assert_close(network(x), scores)
    assert cast(nn.Linear, network.head).weight.shape == (7, network.feature_dim)


@pytest.mark.parametrize("spec", [*LIGHT_IMAGE_MODELS, *BATCH_NORM_MODELS])
def test_weights_come_from_the_generator_alone(spec: str) -> None:
    state = torch.get_rng_state()
    first, again, other = (hash_tensors(tensors_of(make(spec, seed=s))) for s in (1, 1, 2))
    make(spec)(images(2, (3, 32, 32)))
    assert first == again
    assert first != other
    assert torch.equal(state, torch.get_rng_state())


@pytest.mark.parametrize("spec", [*LIGHT_IMAGE_MODELS, *BATCH_NORM_MODELS])
def test_evaluation_ignores_the_rest_of_the_batch(spec: str) -> None:
    network = make(spec).eval()
    x = images(8, (3, 32, 32))
    with torch.no_grad():
        together = network(x)
        alone = torch.cat([network(x[:1]), network(x[1:4]), network(x[4:])])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("spec", [*LIGHT_IMAGE_MODELS, *BATCH_NORM_MODELS])
def test_gradient_reaches_every_parameter(spec: str) -> None:
    network = make(spec)
    network(images(16, (3, 32, 32))).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("spec", [*LIGHT_IMAGE_MODELS, *BATCH_NORM_MODELS])
def test_state_round_trip(spec: str) -> None:
    factory = network_factory(spec, kind="image", input_shape=(3, 32, 32), num_classes=10)
    trained = factory(generator(1))
    trained(images(4, (3, 32, 32)))  # moves running statistics
    tensors = tensors_of(trained)
    assert all(tensor.is_contiguous() for tensor in tensors.values())
    copy = factory(None)
    load_into(copy, tensors)
    assert hash_tensors(tensors_of(copy)) == hash_tensors(tensors)
    x = images(4, (3, 32, 32))
    with torch.no_grad():
        assert torch.equal(copy.eval()(x), trained.eval()(x))


def test_undefined_network_has_valid_buffers() -> None:
    factory = network_factory(
        "resnet10,width=4", kind="image", input_shape=(3, 32, 32), num_classes=2
    )
    for name, buffer in factory(None).named_buffers():
        wanted = 1.0 if name.endswith("running_var") else 0.0
        assert torch.equal(buffer, torch.full_like(buffer, wanted)), name


def test_first_weights_have_the_stated_scales_oneshot_2_1() -> None:
    network = make("resnet18").requires_grad_(False)
    deep = cast(nn.Conv2d, network.get_submodule("blocks.3.1.conv2")).weight
    assert float(deep.std()) == pytest.approx((2 / (512 * 9)) ** 0.5, rel=0.02)
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == 20
    assert all(bool((m.weight == 1).all() and (m.bias == 0).all()) for m in norms)
    mlp = make("mlp:300", (1, 20, 20)).requires_grad_(False)
    hidden = cast(nn.Linear, mlp.get_submodule("linear_layers.0"))
    assert float(hidden.weight.abs().max()) == pytest.approx(1 / 20, rel=0.01)
    assert float(hidden.weight.std()) == pytest.approx(1 / 20 / 3**0.5, rel=0.02)
    assert float(hidden.bias.abs().max()) <= 1 / 20


def test_mlp_is_its_linear_layers() -> None:
    network = make("mlp:20-10", (1, 6, 6))
    assert isinstance(network, MLP)
    layers = [cast(nn.Linear, layer) for layer in network.linear_layers]
    assert [tuple(layer.weight.shape) for layer in layers] == [(20, 36), (10, 20), (10, 10)]
    assert sum(layer.weight.numel() + layer.bias.numel() for layer in layers) == num_parameters(
        network
    )
    x = images(3, (1, 6, 6))
    hidden = x.reshape(3, 36)
    for layer in layers[:-1]:
        hidden = (hidden @ layer.weight.T + layer.bias).clamp(min=0)
    wanted = hidden @ layers[-1].weight.T + layers[-1].bias
    torch.testing.assert_close(network(x), wanted)
    logistic = make("logistic", (1, 6, 6))
    assert isinstance(logistic, MLP)
    assert len(logistic.linear_layers) == 1
    assert logistic.feature_dim == 36


def test_cnn_pools_before_relu_with_the_same_result() -> None:
    network = make("cnn:4-6,kernel=5,fc=8", (1, 28, 28))
    x = images(2, (1, 28, 28))
    wanted = x
    for layer in network.get_submodule("convolutions").children():
        wanted = torch.max_pool2d(torch.relu(layer(wanted)), 2)
    hidden = torch.relu(network.get_submodule("hidden")(wanted.flatten(1)))
    torch.testing.assert_close(network(x), network.get_submodule("head")(hidden))


def test_resnet_equals_the_textbook_form() -> None:
    network = make("resnet10,width=4").eval()
    x = images(2, (3, 32, 32))
    sub = network.get_submodule
    h = torch.relu(sub("stem_norm")(sub("stem")(x)))
    for level in range(4):
        block = f"blocks.{level}.0."
        inner = torch.relu(sub(block + "norm1")(sub(block + "conv1")(h)))
        inner = sub(block + "norm2")(sub(block + "conv2")(inner))
        step = 1 if level == 0 else 2
        h = torch.relu(inner + sub(block + "shortcut")(h[:, :, ::step, ::step]))
    features = cast(Network, network).features(x)
    torch.testing.assert_close(features, h.mean((2, 3)), atol=1e-5, rtol=1e-4)
    assert features.min() >= 0


@pytest.mark.parametrize(
    ("spec", "channels"),
    [
        ("resnet10,width=8", [8, 8, 16, 32, 64]),
        ("cnn,width=8", [8, 16]),
        ("mobilenet,width=0.25", [8, 8, 8, 8, 16, 24, 40, 80, 320]),
    ],
)
def test_stages_are_pre_activation_maps_prototype_6(spec: str, channels: list[int]) -> None:
    network = make(spec).eval()
    x = images(2, (3, 32, 32))
    stages = network.stages(x)  # type: ignore[operator]
    assert [stage.shape[1] for stage in stages] == channels
    assert all(stage.min() < 0 for stage in stages)
    features = network.features_after(stages[-1])  # type: ignore[operator]
    assert torch.equal(features, cast(Network, network).features(x))


@pytest.mark.parametrize("spec", BATCH_NORM_MODELS)
def test_one_image_is_a_batch_where_the_map_allows(spec: str) -> None:
    for shape in ((3, 9, 9), (3, 32, 32)):
        assert len(make(spec, shape).train()(images(1, shape))) == 1


@pytest.mark.parametrize("spec", BATCH_NORM_MODELS)
def test_one_image_without_variance_is_refused_in_words(spec: str) -> None:
    network = make(spec, (3, 9, 9)).train()
    network(images(2, (3, 8, 8)))
    with pytest.raises(ConfigError, match="one 8×8 image leaves batch normalisation one value"):
        network(images(1, (3, 8, 8)))
    network.eval()(images(1, (3, 8, 8)))


def test_group_norm_has_no_buffers() -> None:
    assert list(make("resnet10,width=8,norm=group").buffers()) == []
    with pytest.raises(ConfigError, match="groups=3 does not divide 8 channels"):
        make("resnet10,width=8,norm=group,groups=3")


def test_text_model_prototype_11_5() -> None:
    factory = network_factory("text", kind="text", input_shape=(6,), num_classes=4, vocabulary=50)
    network = factory(generator())
    assert num_parameters(network) == 50 * 32 + 32 * 32 + 32 + 32 * 4 + 4
    tokens = torch.tensor([[3, 7, 7, 0, 0, 0], [0, 0, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6]])
    table = cast(nn.EmbeddingBag, network.get_submodule("embedding")).weight
    means = [
        torch.stack([table[t] for t in row if t != 0]).mean(0) if any(row) else torch.zeros(32)
        for row in tokens.tolist()
    ]
    wanted = network.get_submodule("hidden")(torch.stack(means))
    features = cast(Network, network).features(tokens)
    torch.testing.assert_close(features, wanted)
    assert features.shape == (3, 32)
    # padding to another length changes nothing
    longer = torch.cat([tokens, torch.zeros(3, 4, dtype=torch.long)], 1)
    torch.testing.assert_close(network(longer), network(tokens))
    network(tokens).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in network.parameters())


def test_vector_inputs() -> None:
    factory = network_factory("auto", kind="vector", input_shape=(12,), num_classes=3)
    network = factory(generator())
    assert isinstance(network, MLP)
    assert network(torch.randn(5, 12, generator=generator())).shape == (5, 3)
