"""FedHPro as a whole (specification prototype, sections 1.6, 2.2, 2.6, 2.11, 2.12, 15)."""

import dataclasses
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.hyperprototype.extraction import Extraction
from fedcord.algorithms.hyperprototype.fedhpro import HYPER, META, PRESENT, FedHPro
from fedcord.algorithms.hyperprototype.head import head_of
from fedcord.algorithms.hyperprototype.matching import Matching
from fedcord.algorithms.hyperprototype.objective import HyperObjective
from fedcord.algorithms.hyperprototype.retraining import Retraining
from fedcord.algorithms.local_sgd import LocalSGD
from fedcord.algorithms.oneshot.baselines.fedproto_oneshot import class_means
from fedcord.algorithms.registry import ALGORITHMS
from fedcord.core.contract import Algorithm, Env, ServerState, Update
from fedcord.core.errors import ConfigError
from fedcord.core.examples import ClientData, Examples
from fedcord.core.params import build
from fedcord.core.task import Task
from fedcord.core.tensors import Tensors, hash_tensors, num_bytes, prefixed, select
from fedcord.engine.population import Population
from fedcord.engine.rounds import RoundRecord, Schedule, run_rounds
from fedcord.engine.sequential import SequentialExecutor
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
        executor = SequentialExecutor(self.method, env.task, self.people)
        schedule = Schedule(self.rounds, lambda _: self.clients)
        run_rounds(self.method, executor, env, state, schedule, self._note)

    def _note(self, state: ServerState, record: RoundRecord) -> None:
        self.states.append(state)
        self.records.append(record)

    @property
    def model(self) -> Tensors:
        return select(self.states[-1].shared, "model")


@BOTH
@pytest.mark.parametrize("local", [LocalSGD(), LocalSGD(clip=1e9)], ids=["plain", "clipped"])
def test_2_12_11_without_weights_and_retraining_it_is_fedavg(
    values: dict[str, object], local: LocalSGD
) -> None:
    """15.2: bit for bit, with the same seeds."""
    people, clients = federation.population(values), (0, 1, 3)
    off = fedhpro(objective=PLAIN, retraining=NONE, local=local)
    one = Run(off, people, values, clients=clients)
    two = Run(FedAvg(local), people, values, clients=clients)
    assert hash_tensors(one.model) == hash_tensors(two.model)
    for on in (HyperObjective(contrast_weight=0.0), HyperObjective(alignment_weight=0.0)):
        other = Run(dataclasses.replace(off, objective=on), people, values, clients=clients)
        assert hash_tensors(other.model) != hash_tensors(two.model)


def visit(method: FedHPro, data: ClientData, number: int = 0) -> tuple[ServerState, Update, Env]:
    env = federation.env()
    state = method.init(env)
    return state, method.client_update(state.shared, {}, data, env.at(number)).update, env


def test_2_12_12_one_client_alone_is_the_average() -> None:
    method = fedhpro(retraining=NONE)
    state, update, env = visit(method, federation.population().client(0))
    after = method.aggregate(state, iter([(0, update)]), env)
    assert hash_tensors(select(after.shared, "model")) == hash_tensors(
        select(update.tensors, "model")
    )


def test_2_7_d_retraining_replaces_the_classifier_and_nothing_else() -> None:
    method = fedhpro()
    state, update, env = visit(method, federation.population().client(0))
    after = method.aggregate(state, iter([(0, update)]), env)
    changed = {
        name
        for name, tensor in select(after.shared, "model").items()
        if not torch.equal(tensor, update.tensors[f"model.{name}"])
    }
    assert changed == {"linear_layers.1.weight", "linear_layers.1.bias"}
    wanted = FEW.train(after.private[META], env)
    assert torch.equal(head_of(after.shared, env).weight, wanted.weight)


def test_2_12_14_two_clients_average_to_neither() -> None:
    """Guards the aliasing of the public code, 2.9-A."""
    method, env = fedhpro(retraining=NONE), federation.env()
    state, people = method.init(env), federation.population()
    sent = [
        (k, method.client_update(state.shared, {}, people.client(k), env.at(k)).update)
        for k in (0, 3)
    ]
    models = [select(update.tensors, "model") for _, update in sent]
    after = select(method.aggregate(state, iter(sent), env).shared, "model")
    assert len({hash_tensors(model) for model in (after, *models)}) == 3


def test_15_7_a_mutated_update_does_not_reach_the_server() -> None:
    method = fedhpro()
    state, update, env = visit(method, federation.population().client(0))
    after = method.aggregate(state, iter([(0, update)]), env)
    before = hash_tensors(after.shared), hash_tensors(after.private)
    for tensor in update.tensors.values():
        tensor.zero_()
    assert (hash_tensors(after.shared), hash_tensors(after.private)) == before


@PRESETS
def test_2_12_15_training_leaves_hyper_prototypes_alone(method: FedHPro) -> None:
    env = federation.env()
    shared = method.init(env).shared
    before = shared[HYPER].clone()
    method.client_update(shared, {}, federation.population().client(0), env.at(0))
    assert torch.equal(shared[HYPER], before)
    assert not shared[HYPER].requires_grad


def test_2_12_15_meta_features_exist_with_retraining_only() -> None:
    with_it, without = Run(fedhpro()), Run(fedhpro(retraining=NONE))
    assert all(META in state.private for state in with_it.states)
    assert not torch.equal(with_it.states[0].private[META], with_it.states[-1].private[META])
    assert all(META not in state.private for state in without.states)


def test_2_2_private_stays_and_hyper_prototypes_are_sent() -> None:
    run = Run(fedhpro())
    assert run.states[0].shared[HYPER].shape == (CLASSES, 5, DIM)
    assert not any(name.startswith("meta") for name in run.states[-1].shared)


@PRESETS
def test_2_2_and_15_3_update_holds_rows_of_owned_classes_only(method: FedHPro) -> None:
    _, update, env = visit(method, client([2, 0, 2]))
    signal = "signal.prototype" if method.source == "prototypes" else "signal.gradient"
    shapes = {n: tuple(t.shape) for n, t in update.tensors.items() if n.startswith("signal.")}
    assert shapes == {
        PRESENT: (CLASSES,),
        signal: (2, DIM),
        "signal.head_weight": (2, CLASSES, DIM),
        "signal.head_bias": (2, CLASSES),
    }
    assert update.tensors[PRESENT].tolist() == [True, False, True]
    assert update.weight == 3
    assert set(update.tensors) == set(method.expected_update(method.init(env).shared, env))


@PRESETS
@pytest.mark.parametrize("has_retraining", [True, False])
def test_15_10_bytes_are_those_of_the_specification(method: FedHPro, has_retraining: bool) -> None:
    """Measured from the round loop's own count; presence and weight are stated extras."""
    own = dataclasses.replace(method, retraining=FEW if has_retraining else NONE)
    labels = [[0, 0, 1], [2], [0, 1, 2, 2]]
    people = Population.from_clients([client(each) for each in labels], client([0]).train)
    run = Run(own, people, rounds=1, clients=(0, 1, 2))
    model = num_bytes(prefixed("model", run.model)) // 4
    assert run.records[0].bytes_down == 3 * 4 * (model + CLASSES * 5 * DIM)
    floats, extra = 0, 3 * (CLASSES + 8)  # a byte per class, and the weight
    for each in labels:
        owned = len(set(each))
        floats += model + owned * DIM
        floats += owned * (CLASSES * DIM + CLASSES) if has_retraining else 0
    assert run.records[0].bytes_up == 4 * floats + extra


@PRESETS
def test_2_12_7_and_15_6_classes_of_unsampled_clients_stay(method: FedHPro) -> None:
    """Class 2 is held by client 1 alone, who is not visited."""
    people = Population.from_clients(
        [client([0, 0, 1, 1]), client([2, 2, 2]), client([0, 1, 1], 4)], client([0]).train
    )
    run = Run(method, people, clients=(0, 2))
    first, last = run.states[0], run.states[-1]
    assert torch.equal(first.shared[HYPER][2], last.shared[HYPER][2])
    assert torch.equal(first.private[META][2], last.private[META][2])
    for label in (0, 1):
        assert not torch.equal(first.shared[HYPER][label], last.shared[HYPER][label])


@PRESETS
def test_2_12_7_clients_that_lack_a_class_do_not_move_it(method: FedHPro) -> None:
    """With the received classifier, another client without class c changes nothing of U_c."""
    own = dataclasses.replace(
        method, matching=dataclasses.replace(method.matching, classifier="broadcast")
    )
    env = federation.env()
    state = own.init(env)
    sent = {
        k: own.client_update(state.shared, {}, data, env.at(k)).update
        for k, data in enumerate((client([0, 1, 2]), client([0, 1], 5)))
    }
    alone = own.aggregate(state, iter([(0, sent[0])]), env).shared[HYPER]
    both = own.aggregate(state, iter(sent.items()), env).shared[HYPER]
    torch.testing.assert_close(alone[2], both[2])
    assert not torch.allclose(alone[0], both[0])


@PRESETS
def test_15_5_empty_single_class_and_single_sample_clients(method: FedHPro) -> None:
    people = Population.from_clients(
        [client([]), client([1, 1, 1]), client([2]), client([0, 1, 2])],
        federation.population().test,
    )
    run = Run(method, people, clients=(1, 2, 3))
    assert run.records[-1].refused == ()
    for tensor in (*run.states[-1].shared.values(), *run.states[-1].private.values()):
        assert bool(torch.isfinite(tensor).all())
    for record in run.records:
        assert record.client_metrics[1]["margin"] == 0  # 2.11: one class


def test_1_6_an_empty_client_that_answers_counts_in_no_mean() -> None:
    method, env = fedhpro(), federation.env()
    state = method.init(env)
    updates = {
        k: method.client_update(state.shared, {}, data, env.at(k)).update
        for k, data in enumerate((client([0, 1, 2]), client([])))
    }
    assert updates[1].weight == 0
    one = method.aggregate(state, iter([(0, updates[0])]), env)
    two = method.aggregate(state, iter(updates.items()), env)
    assert hash_tensors(one.shared) == hash_tensors(two.shared)


@PRESETS
def test_15_8_equal_seeds_give_equal_runs(method: FedHPro) -> None:
    before = torch.get_rng_state()
    first, second = Run(method), Run(method)
    assert hash_tensors(first.states[-1].shared) == hash_tensors(second.states[-1].shared)
    assert [r.server_metrics for r in first.records] == [r.server_metrics for r in second.records]
    assert torch.equal(before, torch.get_rng_state())


def test_metrics_tell_where_hyper_prototypes_went() -> None:
    run = Run(fedhpro())
    named = run.records[-1].server_metrics
    assert set(named) == {
        "displacement",
        "class_cosine",
        "class_cosine_max",
        "matching_start",
        "matching_end",
        "cosine_distance_start",
        "cosine_distance_end",
        "consistency",
    }
    first, last = run.states[0].shared[HYPER], run.states[-1].shared[HYPER]
    moved = float((last - first).norm(dim=2).mean())
    assert named["displacement"] == pytest.approx(moved, rel=1e-5)
    assert named["matching_end"] < named["matching_start"]
    centres = [own.mean(0) for own in last]
    cosines = [
        float(torch.nn.functional.cosine_similarity(a, b, dim=0))
        for i, a in enumerate(centres)
        for b in centres[i + 1 :]
    ]
    assert named["class_cosine"] == pytest.approx(sum(cosines) / 3, rel=1e-5)
    assert named["class_cosine_max"] == pytest.approx(max(cosines), rel=1e-5)


def test_the_averaged_form_differs_in_nothing_but_hyper_prototypes() -> None:
    """The first round trains on the same first hyper-prototypes, so models agree bit for bit."""
    one, two = fedhpro(), fedhpro("fedhpro-averaged")
    assert dataclasses.replace(two, source="gradients") == one
    runs = Run(one, rounds=1), Run(two, rounds=1)
    for run in runs:
        assert run.states[0].shared[HYPER].shape == (CLASSES, 5, DIM)
    assert hash_tensors(runs[0].model) == hash_tensors(runs[1].model)
    assert torch.equal(runs[0].states[-1].private[META], runs[1].states[-1].private[META])
    assert not torch.equal(runs[0].states[-1].shared[HYPER], runs[1].states[-1].shared[HYPER])
    assert runs[0].records[0].bytes_up == runs[1].records[0].bytes_up
    assert runs[0].records[0].bytes_down == runs[1].records[0].bytes_down
    assert "consistency" in runs[1].records[0].server_metrics
    assert "matching_start" not in runs[1].records[0].server_metrics


def test_the_averaged_form_sets_every_vector_to_the_mean_of_class_means() -> None:
    method = fedhpro("fedhpro-averaged", extraction=Extraction(examples=1000, augment=False))
    env, people = federation.env(), federation.population()
    state, found = method.init(env), dict[int, list[Tensor]]()
    updates = {}
    for k in (0, 1, 2):
        data = people.client(k)
        network = env.task.network_with(select(state.shared, "model"))
        means, counts = class_means(network, data.train, env)
        for label in range(CLASSES):
            if counts[label] > 0:
                found.setdefault(label, []).append(means[label])
        updates[k] = method.client_update(state.shared, {}, data, env.at(k)).update
    hyper = method.aggregate(state, iter(updates.items()), env).shared[HYPER]
    for label, own in found.items():
        wanted = torch.stack(own).mean(0)
        for vector in hyper[label]:
            torch.testing.assert_close(vector, wanted, atol=1e-5, rtol=1e-5)


def test_2_6_updated_and_broadcast_classifiers_differ() -> None:
    runs = [
        Run(fedhpro(matching=Matching(classifier=which)), rounds=1)
        for which in ("updated", "broadcast")
    ]
    assert hash_tensors(runs[0].model) == hash_tensors(runs[1].model)
    hypers = [run.states[-1].shared[HYPER] for run in runs]
    assert not torch.equal(hypers[0], hypers[1])
    distances = [run.records[0].server_metrics["cosine_distance_start"] for run in runs]
    assert distances[1] < distances[0]  # 2.6: the received one makes zero reachable


def test_2_8_presets_are_the_columns_of_the_table() -> None:
    paper, code = fedhpro(), fedhpro("fedhpro-reference")
    for both in (paper, code):
        assert both.num_prototypes == 5
        assert both.matching.steps == 30
        assert both.objective.temperature == 0.05
        assert both.objective.alignment_reduction == "mean"
        assert (both.extraction.examples, both.extraction.repeats) == (100, 1)
        assert both.extraction.augment
        assert (both.objective.contrast_weight, both.objective.alignment_weight) == (1, 1)
    chosen = [
        (
            each.matching.lr,
            each.matching.metric,
            each.matching.classifier,
            each.extraction.scale,
            each.objective.margin,
            each.objective.contrast_reduction,
        )
        for each in (paper, code)
    ]
    assert chosen == [
        (10.0, "cosine", "broadcast", "per_sample", "paper", "mean"),
        (0.1, "coordinate", "updated", "reference", "off", "reference"),
    ]
    full = Retraining()
    assert (full.enabled, full.vectors, full.matching_steps, full.matching_lr) == (
        True,
        50,
        100,
        0.1,
    )
    assert (full.epochs, full.lr, full.batch_size) == (100, 0.01, 50)


@pytest.mark.parametrize("num_prototypes", [1, 3])
def test_2_11_any_number_of_hyper_prototypes(num_prototypes: int) -> None:
    run = Run(fedhpro(num_prototypes=num_prototypes))
    assert run.states[-1].shared[HYPER].shape == (CLASSES, num_prototypes, DIM)
    assert bool(torch.isfinite(run.states[-1].shared[HYPER]).all())


def test_a_network_without_a_linear_head_is_refused() -> None:
    class Odd(torch.nn.Module):
        feature_dim = 4

        def __init__(self) -> None:
            super().__init__()
            self.head = torch.nn.Sequential(torch.nn.Linear(4, 2))

    task = Task(2, (4,), [lambda _: Odd()], lambda x: x)
    with pytest.raises(ConfigError, match="linear classifier"):
        head_of({}, Env(task, 0))


def test_2_7_b_meta_features_are_fitted_with_the_classifier_clients_used() -> None:
    method = fedhpro(retraining=dataclasses.replace(FEW, matching_lr=5.0))
    state, update, env = visit(method, client([0, 1, 2, 2, 1]))
    after = method.aggregate(state, iter([(0, update)]), env)
    rows = {n: update.tensors[f"signal.head_{n}"] for n in ("weight", "bias")}
    everyone = torch.ones(CLASSES, dtype=torch.bool)
    fitted = {
        which: method.retraining.fit_vectors(
            state.private[META], rows["weight"], rows["bias"], everyone, head_of(shared, env)
        )
        for which, shared in (("received", state.shared), ("averaged", update.tensors))
    }
    assert torch.equal(after.private[META], fitted["received"])
    assert not torch.equal(after.private[META], fitted["averaged"])
