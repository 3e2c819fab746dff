"""What students are taught with: each loss written out, teachers, generated inputs, weights."""

from __future__ import annotations

import dataclasses
import functools
import math

import pytest
import torch
from torch import Tensor, nn

from fedcord.algorithms.oneshot.baselines.dense import Dense
from fedcord.algorithms.oneshot.baselines.distillation import Distillation, Student, cosine
from fedcord.algorithms.oneshot.baselines.generator import (
    build_generator,
    draw_weights,
    noise_inputs,
    to_network,
)
from fedcord.algorithms.oneshot.baselines.pool import Pool
from fedcord.algorithms.oneshot.baselines.synthesis import Synthesis, Synthesizer
from fedcord.algorithms.oneshot.baselines.teacher import Teacher, statistics_gap
from fedcord.algorithms.oneshot.baselines.teaching_losses import (
    boundary_loss,
    divergence,
    hard_loss,
)
from fedcord.core.errors import ConfigError, NumericalError
from fedcord.core.task import tensors_of
from fedcord.core.tensors import hash_tensors
from tests.algorithms.oneshot.teaching import drawn, softmax, some_models
from tests.federation import IMAGE, VECTOR, env, examples

SMALL = Synthesis(steps=4, batch_size=16, latent_dim=8, width=4)
TEXT: dict[str, object] = {
    **VECTOR,
    "kind": "text",
    "input_shape": [5],
    "vocabulary": 20,
    "models": ["text"],
}


def slow_divergence(teacher: Tensor, student: Tensor, temperature: float) -> list[float]:
    out = []
    for goal, own in zip(teacher.tolist(), student.tolist(), strict=True):
        p = softmax([s / temperature for s in goal])
        q = softmax([s / temperature for s in own])
        total = sum(a * (math.log(a) - math.log(b)) for a, b in zip(p, q, strict=True))
        out.append(temperature**2 * total)
    return out


@pytest.mark.parametrize("temperature", [1.0, 3.0])
def test_divergence_against_the_sum_over_classes(temperature: float) -> None:
    teacher, student = 2 * drawn(5, 4), 2 * drawn(5, 4, seed=1)
    wanted = slow_divergence(teacher, student, temperature)
    assert divergence(teacher, student, temperature).tolist() == pytest.approx(wanted, rel=1e-4)
    torch.testing.assert_close(divergence(teacher, teacher), torch.zeros(5), rtol=0.0, atol=1e-6)


def test_boundary_loss_counts_only_where_decisions_differ() -> None:
    teacher, student = 2 * drawn(6, 3), 2 * drawn(6, 3, seed=1)
    apart = slow_divergence(teacher, student, 1.0)
    total, differing = 0.0, 0
    for i in range(6):
        if teacher[i].tolist().index(max(teacher[i].tolist())) != student[i].tolist().index(
            max(student[i].tolist())
        ):
            total += apart[i]
            differing += 1
    assert 0 < differing < 6
    assert float(boundary_loss(teacher, student)) == pytest.approx(-total / 6, rel=1e-4)


@pytest.mark.parametrize("sharpness", [0.0, 1.0, 2.0])
def test_hard_loss_weighs_by_difficulty_and_does_not_differentiate_it(sharpness: float) -> None:
    scores, labels = drawn(5, 3).requires_grad_(), torch.tensor([0, 2, 1, 1, 0])
    loss = hard_loss(scores, labels, sharpness)
    total = 0.0
    wanted = torch.zeros(5, 3)
    for i, (row, y) in enumerate(zip(scores.tolist(), labels.tolist(), strict=True)):
        p = softmax(row)
        weight = (1 - p[y]) ** sharpness
        total += -weight * math.log(p[y])
        for c in range(3):
            wanted[i, c] = weight * (p[c] - (1.0 if c == y else 0.0)) / 5
    assert float(loss.detach()) == pytest.approx(total / 5, rel=1e-4)
    (gradient,) = torch.autograd.grad(loss, scores)
    torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-5)


def test_statistics_gap_against_loops() -> None:
    maps, mean, variance = drawn(3, 2, 4, 4), drawn(2, seed=1), drawn(2, seed=2).abs()
    gaps = [[], []]  # type: list[list[float]]
    for c in range(2):
        values = [float(v) for v in maps[:, c].reshape(-1)]
        found = sum(values) / len(values)
        spread = sum((v - found) ** 2 for v in values) / len(values)
        gaps[0].append((found - float(mean[c])) ** 2)
        gaps[1].append((spread - float(variance[c])) ** 2)
    wanted = math.sqrt(sum(gaps[0])) + math.sqrt(sum(gaps[1]))
    assert float(statistics_gap(maps, mean, variance)) == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("values", [VECTOR, IMAGE], ids=["mlp", "resnet"])
def test_teacher_scores_and_input_gradients_are_the_networks_own(values: dict[str, object]) -> None:
    here = env(values)
    models = some_models(here)
    teacher = Teacher(models, here)
    x = here.task.prepare(examples(4, 1, values).inputs).requires_grad_()
    found = teacher.member_scores(x)
    (gradient,) = torch.autograd.grad(found[1, :, 0].sum(), x)
    for place, model in enumerate(models.values()):
        network = here.task.networks[0](None)
        network.load_state_dict(dict(model))
        own = x.detach().clone().requires_grad_()
        scores = network.eval()(own)
        torch.testing.assert_close(found[place], scores, rtol=1e-4, atol=1e-4)
        if place == 1:
            (wanted,) = torch.autograd.grad(scores[:, 0].sum(), own)
            torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-4)
    assert not here.task.scratch_network().training


def note(
    seen: list[tuple[nn.BatchNorm2d, Tensor]],
    layer: nn.BatchNorm2d,
    given: tuple[Tensor, ...],
    _: Tensor,
) -> None:
    seen.append((layer, given[0]))


def test_teacher_measures_batch_statistics_of_every_layer_and_member() -> None:
    here = env(IMAGE)
    models = some_models(here)
    x = here.task.prepare(examples(4, 1, IMAGE).inputs)
    _, gap = Teacher(models, here).scores_and_statistics_gap(x)
    total = 0.0
    for model in models.values():
        network = here.task.networks[0](None)
        network.load_state_dict(dict(model))
        seen: list[tuple[nn.BatchNorm2d, Tensor]] = []
        for module in network.eval().modules():
            if isinstance(module, nn.BatchNorm2d):
                module.register_forward_hook(functools.partial(note, seen))
        with torch.no_grad():
            network(x)
        assert len(seen) == 12
        for layer, maps in seen:
            assert layer.running_mean is not None
            assert layer.running_var is not None
            mean = maps.transpose(0, 1).flatten(1).mean(1)
            spread = maps.transpose(0, 1).flatten(1).var(1, unbiased=False)
            total += float((mean - layer.running_mean).norm())
            total += float((spread - layer.running_var).norm())
    assert float(gap) == pytest.approx(total / 3, rel=1e-3)
    assert float(Teacher(models, here).scores_and_statistics_gap(x, measure=False)[1]) == 0


@pytest.mark.parametrize("values", [VECTOR, IMAGE], ids=["vectors", "images"])
def test_generator_makes_inputs_of_the_task_from_its_stream_alone(
    values: dict[str, object],
) -> None:
    here = env(values)
    before = torch.random.get_rng_state()
    network = build_generator(here.task, 8, 4)
    outputs = []
    for seed in (1, 1, 2):
        draw_weights(network, torch.Generator().manual_seed(seed))
        outputs.append(network(drawn(16, 8)).detach())
    assert torch.equal(before, torch.random.get_rng_state())
    assert outputs[0].shape == (16, *here.task.input_shape)
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.equal(outputs[0], outputs[2])
    if values is IMAGE:
        assert 0 <= float(outputs[0].min()) <= float(outputs[0].max()) <= 1
        ready = to_network(here.task)(outputs[0])
        torch.testing.assert_close(ready, (outputs[0] - 0.5) / 0.5)
    else:
        torch.testing.assert_close(outputs[0].mean(0), torch.zeros(8), rtol=0, atol=1e-4)
        assert torch.equal(to_network(here.task)(outputs[0]), outputs[0])
    noise = noise_inputs(here.task, 50, torch.Generator().manual_seed(0))
    assert noise.shape == (50, *here.task.input_shape)


@pytest.mark.parametrize("shape", [[3, 8, 8], [1, 28, 28], [3, 9, 13]])
def test_generator_fits_any_image(shape: list[int]) -> None:
    here = env({**IMAGE, "input_shape": shape, "models": ["mlp:4"], "mean": [], "std": []})
    network = build_generator(here.task, 8, 4)
    draw_weights(network, torch.Generator().manual_seed(0))
    assert network(drawn(2, 8)).shape == (2, *shape)


def test_nothing_can_be_generated_for_text() -> None:
    with pytest.raises(ConfigError, match="not for token ids; choose a method that needs no"):
        build_generator(env(TEXT).task, 8, 4)


def test_synthesis_lowers_its_loss_and_keeps_the_best_batch() -> None:
    here = env()
    goal = torch.linspace(-1, 1, 8)
    seen: list[float] = []

    def loss(inputs: Tensor, labels: Tensor) -> Tensor:
        assert labels.shape == (16,)
        value = (inputs - goal * (1 + labels[:, None])).square().mean()
        seen.append(float(value.detach()))
        return value

    settings = dataclasses.replace(SMALL, steps=25)
    maker = Synthesizer(settings, here.task, torch.Generator().manual_seed(0))
    best, labels = maker.batch(loss)
    assert seen[-1] < 0.9 * seen[0]
    kept = float((best - goal * (1 + labels[:, None])).square().mean())
    assert kept == pytest.approx(min(seen), rel=1e-5)
    again = Synthesizer(settings, here.task, torch.Generator().manual_seed(0)).batch(loss)
    assert torch.equal(again[0], best)


def test_synthesis_whose_loss_is_never_a_number_says_so() -> None:
    maker = Synthesizer(SMALL, env().task, torch.Generator().manual_seed(0))
    with pytest.raises(NumericalError, match=r"never finite; lower synthesis.lr \(now 0.01\)"):
        maker.batch(lambda inputs, labels: inputs.sum() * float("nan"))


def test_pool_gives_everything_once_in_new_orders_and_never_a_single_row() -> None:
    pool = Pool(4, torch.Generator().manual_seed(0))
    pool.add(torch.arange(5), torch.arange(5) * 10)
    pool.add(torch.arange(5, 9), torch.arange(5, 9) * 10)
    orders = []
    for _ in range(2):
        batches = list(pool.batches())
        assert [len(first) for first, _ in batches] == [4, 5]
        assert all(torch.equal(second, first * 10) for first, second in batches)
        orders.append(torch.cat([first for first, _ in batches]).tolist())
        assert sorted(orders[-1]) == list(range(9))
    assert orders[0] != orders[1]


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_student_starts_as_told_and_learns_what_the_teacher_says(optimizer: str) -> None:
    here = env()
    models = some_models(here)
    lr = 0.3 if optimizer == "sgd" else 0.05
    settings = Distillation(optimizer=optimizer, lr=lr, start="average")
    student = Student(settings, models, [0.5, 0.25, 0.25], here)
    for name, tensor in tensors_of(student.network).items():
        first, second, third = (model[name] for model in models.values())
        torch.testing.assert_close(tensor, 0.5 * first + 0.25 * second + 0.25 * third)
    x, goal = drawn(32, 8), 3 * drawn(32, 3, seed=1)
    before = float(divergence(goal, student.scores(x)).mean().detach())
    for _ in range(60):
        student.learn(x, goal)
    assert float(divergence(goal, student.scores(x)).mean().detach()) < 0.5 * before
    still = Student(settings, models, [0.5, 0.25, 0.25], here)
    held = hash_tensors(still.trained())
    still.learn(x, goal, progress=1.0)  # the rate has fallen to nothing
    assert hash_tensors(still.trained()) == held
    assert [cosine(p) for p in (0.0, 0.5, 1.0)] == pytest.approx([1.0, 0.5, 0.0])


def test_student_that_leaves_the_numbers_names_the_learning_rate() -> None:
    here = env()
    student = Student(Distillation(lr=1e38), some_models(here), [1 / 3] * 3, here)
    for _ in range(3):
        student.learn(drawn(4, 8), drawn(4, 3))
    with pytest.raises(NumericalError, match=r"lower distillation.lr \(now 1e\+38\)"):
        student.trained()


def test_dense_generator_loss_is_the_sum_of_its_three_parts() -> None:
    here = env(IMAGE)
    models = some_models(here)
    teacher = Teacher(models, here)
    student = Student(Distillation(), models, [1 / 3] * 3, here)
    x = here.task.prepare(examples(8, 1, IMAGE).inputs)
    y = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    thirds, parts = torch.full((3,), 1 / 3), []
    for statistics, boundary in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.3, 0.7)):
        method = Dense(statistics_weight=statistics, boundary_weight=boundary)
        parts.append(float(method.generator_loss(teacher, student, thirds, x, y).detach()))
    with torch.no_grad():
        mean = teacher.member_scores(x).mean(0)
    wanted = sum(
        -math.log(softmax(row)[c]) for row, c in zip(mean.tolist(), y.tolist(), strict=True)
    )
    assert parts[0] == pytest.approx(wanted / 8, rel=1e-4)
    assert parts[1] > parts[0] > parts[2]
    mixed = parts[0] + 0.3 * (parts[1] - parts[0]) + 0.7 * (parts[2] - parts[0])
    assert parts[3] == pytest.approx(mixed, rel=1e-4)
