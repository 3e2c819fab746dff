"""FedHPro's class signals (specification prototype, sections 2.4 and 2.12): closed forms, draws."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.hyperprototype import one_of_six as six
from fedcord.algorithms.hyperprototype.extraction import Extraction
from fedcord.algorithms.hyperprototype.one_of_six import CHANGES, one_of_six
from fedcord.algorithms.kit.linear_head import Head, head_of
from fedcord.algorithms.kit.model_exchange import AveragesModels, received_model
from fedcord.core.contract import Env
from fedcord.core.examples import Examples
from tests import federation

Change = Callable[[Tensor, torch.Generator], Tensor]
ALL = Extraction(examples=1000, augment=False)
BOTH = pytest.mark.parametrize(
    "values", [federation.VECTOR, federation.IMAGE], ids=["mlp", "resnet"]
)


def received(values: dict[str, object]) -> tuple[nn.Module, Head, Env]:
    env = federation.env(values).at(0)
    method: AveragesModels = FedAvg()
    shared = method.init(federation.env(values)).shared
    return received_model(shared, env), head_of(shared, env), env


@BOTH
def test_2_12_1_closed_forms_equal_autograd(values: dict[str, object]) -> None:
    network, head, env = received(values)
    held = federation.examples(30, 0, values)
    found = ALL.extract(network, head, held, env, with_head=True)
    assert found.head_weight is not None
    assert found.head_bias is not None
    for label in held.labels.unique().tolist():
        inputs = env.task.prepare(held.inputs[held.labels == label])
        z = network.features(inputs).detach().requires_grad_()  # type: ignore[operator]
        weight, bias = (t.clone().requires_grad_() for t in (head.weight, head.bias))
        each = F.cross_entropy(z @ weight.T + bias, torch.full((len(z),), label), reduction="none")
        by_z = torch.autograd.grad(each.sum(), z, retain_graph=True)[0].mean(0)
        by_weight, by_bias = torch.autograd.grad(each.mean(), (weight, bias))
        torch.testing.assert_close(found.gradient[label], by_z, atol=1e-6, rtol=0)
        torch.testing.assert_close(found.head_weight[label], by_weight, atol=1e-6, rtol=1e-5)
        torch.testing.assert_close(found.head_bias[label], by_bias, atol=1e-6, rtol=0)
        torch.testing.assert_close(found.prototype[label], z.detach().mean(0))


def test_2_12_2_residuals_sum_to_zero_and_gradients_lie_in_the_row_space() -> None:
    network, head, env = received(federation.VECTOR)
    found = ALL.extract(network, head, federation.examples(30, 0), env, with_head=True)
    assert found.head_bias is not None
    assert found.head_bias.sum(1).abs().max() < 1e-6
    _, _, basis = torch.linalg.svd(head.weight.double(), full_matrices=False)  # [3, 16]
    gradient = found.gradient.double()
    outside = gradient - gradient @ basis.T @ basis
    assert gradient.norm() > 0.1
    assert outside.norm() < 1e-6


def test_2_4_reference_scale_divides_by_the_number_drawn() -> None:
    network, head, env = received(federation.VECTOR)
    labels = torch.tensor([0] * 3 + [1] * 12 + [2])
    held = Examples(federation.examples(16, 0).inputs, labels)
    plain = Extraction(examples=10, augment=False)
    scaled = Extraction(examples=10, augment=False, scale="reference")
    one = plain.extract(network, head, held, env, with_head=False)
    two = scaled.extract(network, head, held, env, with_head=False)
    drawn = torch.tensor([3.0, 10.0, 1.0])
    torch.testing.assert_close(two.gradient * drawn[:, None], one.gradient)
    assert torch.equal(one.prototype, two.prototype)


def test_2_4_draws_are_without_replacement_and_bounded() -> None:
    """Distinct inputs per example make the mean feature tell who was drawn."""
    network, head, env = received(federation.VECTOR)
    held = federation.examples(40, 3)
    own = held.inputs[held.labels == 1]
    few = Extraction(examples=len(own) + 5, augment=False)
    found = few.extract(network, head, held, env, with_head=False)
    with torch.no_grad():
        features = network.features(own)  # type: ignore[operator]
    torch.testing.assert_close(found.prototype[1], features.mean(0))
    single = Extraction(examples=1, augment=False).extract(
        network, head, held, env, with_head=False
    )
    assert any(torch.allclose(single.prototype[1], row, atol=1e-6) for row in features)


def test_2_4_repeats_are_averaged() -> None:
    network, head, env = received(federation.VECTOR)
    held = Examples(federation.examples(12, 0).inputs, torch.zeros(12, dtype=torch.int64))
    found = Extraction(examples=1, repeats=200, augment=False).extract(
        network, head, held, env, with_head=True
    )
    whole = ALL.extract(network, head, held, env, with_head=True)
    one = Extraction(examples=1, augment=False).extract(network, head, held, env, with_head=True)
    far = (one.gradient - whole.gradient).norm()
    assert (found.gradient - whole.gradient).norm() < 0.4 * far
    assert not torch.equal(found.gradient, whole.gradient)


def test_1_6_absent_classes_are_absent_and_an_empty_client_has_none() -> None:
    network, head, env = received(federation.VECTOR)
    inputs = federation.examples(4, 0).inputs
    held = Examples(inputs, torch.tensor([2, 2, 0, 2]))
    found = ALL.extract(network, head, held, env, with_head=True)
    assert found.present.tolist() == [True, False, True]
    nothing = ALL.extract(network, head, Examples(inputs[:0], held.labels[:0]), env, with_head=True)
    assert not bool(nothing.present.any())


def test_without_the_head_its_gradients_are_not_made() -> None:
    network, head, env = received(federation.VECTOR)
    found = ALL.extract(network, head, federation.examples(4, 0), env, with_head=False)
    assert found.head_weight is None
    assert found.head_bias is None


def test_2_8_augmentation_changes_images_only() -> None:
    for values, changes in ((federation.VECTOR, False), (federation.IMAGE, True)):
        network, head, env = received(values)
        held = federation.examples(20, 0, values)
        plain = ALL.extract(network, head, held, env, with_head=False)
        changed = Extraction(examples=1000).extract(network, head, held, env, with_head=False)
        assert torch.allclose(plain.gradient, changed.gradient, atol=1e-5) != changes


def test_2_4_batch_norm_runs_on_its_statistics_and_keeps_them() -> None:
    network, head, env = received(federation.IMAGE)
    before = {name: t.clone() for name, t in network.state_dict().items()}
    ALL.extract(network, head, federation.examples(20, 0, federation.IMAGE), env, with_head=False)
    assert all(torch.equal(t, before[name]) for name, t in network.state_dict().items())


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(count: int = 4, channels: int = 3) -> Tensor:
    return torch.randn(count, channels, 16, 16, generator=generator(5))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("channels", [1, 3])
def test_2_8_a_change_is_one_for_the_whole_draw(change: Change, channels: int) -> None:
    one = images(1, channels).expand(5, -1, -1, -1)
    state = torch.get_rng_state()
    outs = [change(one, generator(seed)) for seed in range(12)]
    assert all(out.shape == one.shape for out in outs)
    assert all(torch.allclose(out, out[:1].expand_as(out), atol=1e-5) for out in outs)
    assert any(not torch.allclose(out, one) for out in outs)
    assert torch.equal(change(one, generator(3)), outs[3])
    assert torch.equal(state, torch.get_rng_state())


def test_2_8_all_six_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [change.__name__ for change in CHANGES]
    seen: list[str] = []

    def note(name: str) -> Change:
        def change(x: Tensor, _: torch.Generator) -> Tensor:
            seen.append(name)
            return x

        return change

    monkeypatch.setattr(six, "CHANGES", tuple(note(name) for name in names))
    source = generator(0)
    for _ in range(600):
        one_of_six(images(1), source)
    counts = [seen.count(name) for name in names]
    assert names == ["color", "crop", "cutout", "flip", "scale", "rotate"]
    assert min(counts) > 60
    assert max(counts) < 140


def test_2_8_strengths_are_the_stated_ones() -> None:
    x = images(1)
    for seed in range(40):
        hole = six.cutout(x, generator(seed))
        assert 0 < int((hole == 0).sum()) / 3 <= 64  # half of each side of 16
        shifted = six.crop(torch.ones(1, 1, 16, 16), generator(seed))
        assert int(shifted.sum()) >= 14 * 14  # an eighth is two pixels
        flat = six.color(torch.full((1, 3, 4, 4), 0.2), generator(seed))
        assert abs(float(flat[0, 0, 0, 0]) - 0.2) <= 0.5
    turned = six.rotate(torch.ones(1, 1, 33, 33), generator(1))
    assert float(turned[0, 0, 16, 16]) == pytest.approx(1.0)


def test_2_8_scale_is_at_most_1_2_either_way() -> None:
    ramp = torch.linspace(-1, 1, 65).expand(1, 1, 65, 65)
    factors = []
    for seed in range(200):
        out = six.scale(ramp, generator(seed))
        factors.append(float(out[0, 0, 32, 40] - out[0, 0, 32, 32]) / float(ramp[0, 0, 0, 8] + 1))
    assert min(factors) >= 1 / 1.2 - 0.01
    assert max(factors) <= 1.2 + 0.01
    assert min(factors) < 0.88 < 1.15 < max(factors)
