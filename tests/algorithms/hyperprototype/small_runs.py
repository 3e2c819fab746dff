"""Small federations for FedHPro."""

import dataclasses
from dataclasses import dataclass, field

import pytest

from fedcord.algorithms.hyperprototype.fedhpro import FedHPro
from fedcord.algorithms.hyperprototype.objective import HyperObjective
from fedcord.algorithms.hyperprototype.retraining import Retraining
from fedcord.algorithms.registry import ALGORITHMS
from fedcord.core.contract import Algorithm, Env, ServerState, Update
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import build
from fedcord.core.tensors import Tensors, select
from fedcord.engine.population import Population
from fedcord.engine.rounds import RoundRecord, Schedule, run_rounds
from tests import federation

CLASSES, DIM = 3, 16
FEW = Retraining(vectors=4, matching_steps=5, epochs=3)
NONE = Retraining(enabled=False)
PLAIN = HyperObjective(contrast_weight=0.0, alignment_weight=0.0)
BOTH = pytest.mark.parametrize(
    "values", [federation.VECTOR, federation.IMAGE], ids=["mlp", "resnet"]
)


def fedhpro(name: str = "fedhpro", **changes: object) -> FedHPro:
    method: FedHPro = build(FedHPro, ALGORITHMS[name].preset)
    return dataclasses.replace(method, **{"retraining": FEW, **changes})  # type: ignore[arg-type]


EVERY_PRESET = [fedhpro(name) for name in ("fedhpro", "fedhpro-reference", "fedhpro-averaged")]
PRESETS = pytest.mark.parametrize("method", EVERY_PRESET, ids=["paper", "reference", "averaged"])


def client(labels: list[int], seed: int = 0) -> ClientData:
    """A client with examples of these classes."""
    own = federation.examples(200, seed)
    rows, used = [], set[int]()
    for label in labels:
        row = next(i for i, y in enumerate(own.labels.tolist()) if y == label and i not in used)
        used.add(row)
        rows.append(row)
    nothing = federation.examples(0, 0)
    return ClientData(Examples(own.inputs[rows], own.labels[rows]), nothing, nothing)


@dataclass
class Run:
    """A run through the round loop with what it left."""

    method: Algorithm
    people: Population = field(default_factory=federation.population)
    values: dict[str, object] = field(default_factory=lambda: federation.VECTOR)
    rounds: int = 2
    clients: tuple[int, ...] = (0, 1, 2, 3)
    records: list[RoundRecord] = field(default_factory=list)
    states: list[ServerState] = field(default_factory=list)

    def __post_init__(self) -> None:
        env = federation.env(self.values, rounds=self.rounds)
        state = self.method.init(env)
        self.states.append(state)
        reached = federation.sequential(self.method, env.task, self.people)
        schedule = Schedule(self.rounds, lambda _: self.clients)
        run_rounds(self.method, reached, env, state, schedule, self._note)

    def _note(self, state: ServerState, record: RoundRecord) -> None:
        self.states.append(state)
        self.records.append(record)

    @property
    def model(self) -> Tensors:
        return select(self.states[-1].shared, "model")


def visit(method: FedHPro, data: ClientData, number: int = 0) -> tuple[ServerState, Update, Env]:
    env = federation.env()
    state = method.init(env)
    return state, method.client_update(state.shared, {}, data, env.at(number)).update, env
