"""The server side of the one-shot family: one configuration that chooses and sets an aggregator.

Every aggregator has a file of its own in this folder; see `docs/algorithms/servers.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from torch import Tensor, nn

from fedcord.algorithms.oneshot.member import Member
from fedcord.algorithms.oneshot.released_inputs import image_problem, not_normalised
from fedcord.algorithms.oneshot.servers.aggregator import Aggregator, Common
from fedcord.algorithms.oneshot.servers.dare import Dare
from fedcord.algorithms.oneshot.servers.diagonal_fisher import (
    Certainty,
    diagonal_fisher,
    fisher_spec,
)
from fedcord.algorithms.oneshot.servers.feature_ensemble import FeatureEnsemble
from fedcord.algorithms.oneshot.servers.fisher import Fisher
from fedcord.algorithms.oneshot.servers.iffi import IFFI
from fedcord.algorithms.oneshot.servers.iffi_released import IFFIReleased
from fedcord.algorithms.oneshot.servers.kronecker import factor_spec, kronecker_factors
from fedcord.algorithms.oneshot.servers.lpa import LPA, Posterior
from fedcord.algorithms.oneshot.servers.members import WEIGHTINGS, holding_data
from fedcord.algorithms.oneshot.servers.noise import noise_problem
from fedcord.algorithms.oneshot.servers.output_ensemble import OutputEnsemble
from fedcord.algorithms.oneshot.servers.param_avg import ParamAvg
from fedcord.algorithms.oneshot.servers.ties import Ties, Trimming
from fedcord.algorithms.oneshot.servers.trainable_protos import PrototypeTraining, TrainableProtos
from fedcord.core.contract import ClientId, Env, Review, Scores
from fedcord.core.examples import ClientData
from fedcord.core.params import check_params, param
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, TensorSpec

KINDS = (
    "param_avg",
    "feature_ensemble",
    "iffi_released",
    "iffi",
    "prob_ensemble",
    "logit_ensemble",
    "trainable_protos",
    "lpa",
    "fisher",
    "ties",
    "dare",
)
WITH_NOISE = ("iffi", "iffi_released")


@dataclass(frozen=True)
class Server:
    """Which aggregator, and its options; options of the others are ignored."""

    kind: str = param("feature_ensemble", "how uploads become one predictor", choices=KINDS)
    weighting: str = param(
        "size", "members' weights w_i; iffi has its own switch", choices=WEIGHTINGS
    )
    proto_weighting: str = param(
        "uniform",
        "mean of prototypes: of all members, or by examples of the class",
        choices=("uniform", "counts"),
    )
    ensemble_bn: str = param(
        "running",
        "batch-norm statistics of ensembles; `batch` is the released code's accident",
        choices=("running", "batch"),
    )
    buffers: str = param(
        "mean",
        "batch-norm statistics of one fused model; `first` is the released code's",
        choices=("mean", "first"),
    )
    test_inputs: str = param(
        "normalised",
        "what the fused model reads; raw is the released code's accident on some data",
        choices=("normalised", "raw"),
    )
    noise_samples: int = param(64, "noise inputs that iffi compares with", at_least=1)
    iffi_by_size: bool = param(False, "whether iffi multiplies informativeness by w_i too")
    training: PrototypeTraining = param(PrototypeTraining(), "how trainable_protos learns")
    posterior: Posterior = param(Posterior(), "lpa")
    certainty: Certainty = param(Certainty(), "fisher")
    trimming: Trimming = param(Trimming(), "ties")
    drop: float = param(
        0.2, "dare: share of each member's change that is dropped (paper: p)", at_least=0, below=1
    )

    def __post_init__(self) -> None:
        check_params(self)

    def review(self, task: Task) -> Review:
        """Whether inputs of this kind can be read raw, and compared with noise where they are."""
        raw = self.test_inputs == "raw"
        found = [
            image_problem("server.test_inputs = 'raw'", task) if raw else None,
            noise_problem(task) if self.kind in WITH_NOISE else None,
        ]
        return Review(errors=tuple(problem for problem in found if problem is not None))

    def fuse(
        self, members: Mapping[ClientId, Member], common: Common, env: Env
    ) -> dict[str, Tensor]:
        """What prediction needs, for `ServerState.result`.

        Args:
            members: uploads by client; those without examples are left out.
            common: what all members started from and went towards.
            env: the server's place.
        """
        return self._aggregator().fuse(holding_data(members), common, env)

    def scores(self, result: Tensors, env: Env) -> Scores:
        """The fused model, ready to answer; reads only what `fuse` gave."""
        scores = self._aggregator().scores(result, env)
        if self.test_inputs == "normalised":
            return scores
        return lambda inputs: scores(not_normalised(inputs, env.task))

    def extra_spec(self, env: Env) -> Mapping[str, TensorSpec]:
        """What clients must add to their upload for this aggregator, by name."""
        asked = {"lpa": factor_spec, "fisher": fisher_spec}.get(self.kind)
        if asked is None:
            return {}
        return asked(env.task.scratch_network(env.client), env.task.num_classes)

    @property
    def feeds_back(self) -> bool:
        """Whether clients go on towards what the server has learned, which is not one-shot."""
        return self.kind == "trainable_protos" and self.training.feedback

    @property
    def asked(self) -> object:
        """What decides `extra_upload`, as a plain value; None where nothing is asked for."""
        if self.kind == "fisher":
            return {"fisher": self.certainty.labels}
        return self.posterior.batch_size if self.kind == "lpa" else None

    def extra_upload(
        self, network: nn.Module, prototypes: Tensor, data: ClientData, env: Env
    ) -> dict[str, Tensor]:
        """The tensors of `extra_spec`, computed by a client after its training.

        Args:
            network: the trained network; its head is not read. Left in evaluation mode.
            prototypes: [C, D] trained.
            data: the client's.
            env: the client's place.
        """
        if self.kind == "fisher":
            return diagonal_fisher(network, prototypes, data.train, env, self.certainty)
        if self.kind != "lpa":
            return {}
        size = self.posterior.batch_size
        return kronecker_factors(network, prototypes.detach(), data.train, env, size)

    def _aggregator(self) -> Aggregator:
        return _AGGREGATORS[self.kind](self)


def _ensemble(server: Server) -> FeatureEnsemble:
    return FeatureEnsemble(server.weighting, server.proto_weighting, server.ensemble_bn)


def _iffi(server: Server) -> IFFI:
    weighting = "size" if server.iffi_by_size else "uniform"
    ensemble = FeatureEnsemble(weighting, server.proto_weighting, server.ensemble_bn)
    return IFFI(ensemble, server.noise_samples)


def _average(server: Server) -> ParamAvg:
    return ParamAvg(server.weighting, server.buffers)


_AGGREGATORS: Mapping[str, Callable[[Server], Aggregator]] = MappingProxyType(
    {
        "param_avg": _average,
        "feature_ensemble": _ensemble,
        "iffi": _iffi,
        "iffi_released": lambda s: IFFIReleased(_iffi(s)),
        "prob_ensemble": lambda s: OutputEnsemble("probabilities", s.weighting, s.ensemble_bn),
        "logit_ensemble": lambda s: OutputEnsemble("scores", s.weighting, s.ensemble_bn),
        "trainable_protos": lambda s: TrainableProtos(_ensemble(s), s.training),
        "lpa": lambda s: LPA(_average(s), s.posterior),
        "fisher": lambda s: Fisher(_average(s), s.certainty),
        "ties": lambda s: Ties(_average(s), s.trimming),
        "dare": lambda s: Dare(_average(s), s.drop),
    }
)
