"""Local training that hides whether any one example was there: DP-SGD.

Reference: Abadi et al., "Deep Learning with Differential Privacy", CCS 2016.

In every step each of a client's n examples is drawn with chance q = B/n, independently of the
others: a Poisson sample, which is what the accounting assumes, not shuffled epochs. The gradient of
each example is shortened to C; the sum gets normal noise of standard deviation σC and is divided by
qn. What happens to it then (momentum, decay, a pull to the received model) costs nothing more.

Everything that such a client sends of its training is made from these sums. It reports no training
loss, which would tell of its data. Its number of examples counts as public.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional as F

from fedcord.algorithms.kit.accounting import accountant_review, epsilon_of, normal_like
from fedcord.algorithms.kit.descent import clip_gradients
from fedcord.algorithms.kit.local_sgd import AdjustGradients, LocalSGD
from fedcord.core.contract import Env, Review
from fedcord.core.errors import NumericalError
from fedcord.core.examples import Examples
from fedcord.core.params import check_params, param
from fedcord.core.privacy import PrivacySpent
from fedcord.core.task import Task
from fedcord.core.tensors import is_finite

BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


@dataclass(frozen=True)
class ExamplePrivacy:
    """Noise in local training for the privacy of examples; none unless `noise` is set."""

    noise: float | None = param(
        None, "noise of a batch's gradient in units of the clip (paper: σ)", above=0
    )
    clip: float = param(1.0, "longest gradient of one example (paper: C)", above=0)
    delta: float = param(1e-5, "chance δ of a larger loss; below 1/examples", above=0, below=1)

    def __post_init__(self) -> None:
        check_params(self)

    @property
    def is_on(self) -> bool:
        """Whether anything is done."""
        return self.noise is not None

    def review(self, task: Task) -> Review:
        """Whether single examples have gradients, and whether the noise can be accounted for."""
        if not self.is_on:
            return Review()
        found = accountant_review()
        if any(isinstance(module, BATCH_NORM) for module in task.scratch_network().modules()):
            wrong = (
                "private.noise: under batch normalisation an example's gradient depends on the "
                "others', so none can be hidden; use a network without it, such as mlp or "
                "resnet18,norm=group."
            )
            found += Review(errors=(wrong,))
        return found

    def train(
        self,
        local: LocalSGD,
        network: nn.Module,
        examples: Examples,
        env: Env,
        adjust_gradients: AdjustGradients | None = None,
    ) -> None:
        """Train `network` in place on cross-entropy; arguments as of `LocalSGD.train`."""
        assert self.noise is not None
        parameters = [p for p in network.parameters() if p.requires_grad]
        step, inputs_of = local.descent(parameters, env), local.input_source(examples, env)
        size, noise = len(examples), env.generator("dp-noise")
        expected = min(local.batch_size, size)
        batches = poisson_batches(local, size, env.generator("batches"))
        for batch, rate in zip(batches, local.rates(size), strict=True):
            labels = examples.labels[batch].to(env.task.device)
            sums = clipped_sums(network, inputs_of(batch), labels, self.clip)
            gradients = [
                (total + normal_like(total, self.noise * self.clip, noise).to(total)) / expected
                for total in sums
            ]
            if adjust_gradients is not None:
                adjust_gradients(gradients)
            if local.clip is not None:
                clip_gradients(gradients, local.clip)
            step(gradients, rate)
        if not all(map(is_finite, parameters)):
            raise NumericalError(
                f"the weights are no longer finite; lower local.lr (now {local.lr:g}), "
                "private.noise or private.clip."
            )

    def spent(self, local: LocalSGD, examples: Sequence[int], rounds: int) -> PrivacySpent:
        """The largest ε of any client's examples, over so many visits to each."""
        assert self.noise is not None
        smallest: dict[int, int] = {}  # of clients with as many steps, the one whose q is largest
        for size in examples:
            steps = rounds * local.num_steps(size)
            smallest[steps] = min(size, smallest.get(steps, size))
        epsilon = max(
            epsilon_of(self.noise, min(1.0, local.batch_size / size), steps, self.delta)
            for steps, size in smallest.items()
        )
        statement = (
            f"({epsilon:.4g}, {self.delta:g})-differentially private for one training example "
            f"added or removed, towards everybody, the server included, over {rounds} rounds; "
            "the largest ε of all clients. Numbers of examples are taken as public, validation and "
            "test parts are not covered, and the noise comes from the run's seed: for simulation."
        )
        return PrivacySpent(epsilon, self.delta, "example", statement)


def poisson_batches(local: LocalSGD, num_examples: int, generator: Generator) -> Iterator[Tensor]:
    """Indices of each step's batch, every example drawn by itself; a batch may be empty."""
    for _ in range(local.num_steps(num_examples)):
        drawn = torch.rand(num_examples, generator=generator, dtype=torch.float64)
        yield (drawn < local.batch_size / num_examples).nonzero().flatten()


def clipped_sums(network: nn.Module, inputs: Tensor, labels: Tensor, clip: float) -> list[Tensor]:
    """For every trained parameter the sum over examples of their shortened gradients.

    Args:
        network: without batch normalisation.
        inputs: [B, ...] prepared; B may be 0.
        labels: [B].
        clip: longest gradient of an example, over all parameters.
    """
    trained = {n: p.detach() for n, p in network.named_parameters() if p.requires_grad}
    if len(labels) == 0:
        return [torch.zeros_like(p) for p in trained.values()]

    def loss(weights: dict[str, Tensor], one: Tensor, label: Tensor) -> Tensor:
        scores = torch.func.functional_call(network, weights, (one[None],))
        return F.cross_entropy(scores, label[None])

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(trained, inputs, labels)
    lengths = torch.stack([each[n].flatten(1).norm(dim=1) for n in trained]).norm(dim=0)  # [B]
    kept = clip / lengths.clamp(min=clip)
    return [torch.einsum("b,b...->...", kept, each[n]) for n in trained]
