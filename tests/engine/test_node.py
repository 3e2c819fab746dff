"""A node does what it is asked, again when it is asked again, and for nobody else."""

from dataclasses import replace

import pytest
import torch

from fedcord.algorithms.averaging.fedavg import FedAvg
from fedcord.algorithms.contrastive.moon import MOON
from fedcord.algorithms.kit.local_sgd import LocalSGD
from fedcord.algorithms.prototype.fedproto import FedProto
from fedcord.core.contract import Algorithm, ClientResult, Env
from fedcord.core.errors import CheckpointError, ConfigError, ProtocolError
from fedcord.core.examples import ClientData
from fedcord.core.tensors import Tensors, hash_tensors, prefixed
from fedcord.engine.agreement import Agreement
from fedcord.engine.evaluation import evaluate
from fedcord.engine.memory_store import InProcessMemory
from fedcord.engine.node import INPUTS, ClientNode
from fedcord.engine.requests import Parcel, Reply, Request, Verb, pack_call, unpack_replies
from fedcord.metrics.sums import Evaluation
from tests import federation

LOCAL = LocalSGD(lr=0.1, batch_size=8)


def _node(algorithm: Algorithm, agreement: Agreement | None = None) -> ClientNode:
    people = federation.population()
    return ClientNode(algorithm, federation.task(), people, InProcessMemory(), agreement)


def _request(algorithm: Algorithm, verb: Verb = "update", step: int = 0) -> Request:
    shared = algorithm.init(federation.env()).shared
    return Request(verb, shared, round=step, num_rounds=3, step=step, run="r")


def _asked(node: ClientNode, request: Request, *clients: int) -> list[Reply]:
    found = unpack_replies(node.handle(pack_call(request, Parcel(clients))))
    assert isinstance(found, list)
    return found


def test_hello_says_who_lives_there_and_what_they_agree_on() -> None:
    agreement = Agreement("hash", {"num_classes": 3})
    (reply,) = _asked(_node(FedAvg(LOCAL), agreement), Request("hello", run="r"))
    told = reply.values
    assert told["members"] == [
        [0, 40, 0, 10, ""],
        [1, 25, 0, 6, ""],
        [2, 1, 0, 0, ""],
        [3, 60, 0, 15, ""],
    ]
    assert (told["configuration"], told["task"]) == ("hash", {"num_classes": 3})
    assert told["data"] == federation.population().fingerprint
    assert told["common_test"] == 300


@pytest.mark.parametrize("algorithm", [FedAvg(LOCAL), MOON(local=LOCAL), FedProto(local=LOCAL)])
def test_asking_again_gives_the_same_bytes(algorithm: Algorithm) -> None:
    node = _node(algorithm)
    for step in range(3):
        call = pack_call(_request(algorithm, step=step), Parcel((0, 1)))
        assert node.handle(call) == node.handle(call)


def test_memory_that_is_gone_is_missed_with_the_clients_name() -> None:
    algorithm = MOON(local=LOCAL)
    people = replace(federation.population(), names={0: "Bonn"})
    node = ClientNode(algorithm, federation.task(), people, InProcessMemory())
    for step in range(3):
        _asked(node, _request(algorithm, step=step), 0)
    with pytest.raises(CheckpointError, match=r"client 'Bonn' \(0\): what is kept was left by"):
        list(node.answer(_request(algorithm, step=1), Parcel((0,))))


def test_going_back_to_the_step_before_finds_the_memory_of_then() -> None:
    algorithm = MOON(local=LOCAL)
    node, calls = _node(algorithm), {}
    for step in range(3):
        calls[step] = pack_call(_request(algorithm, step=step), Parcel((0,)))
    first, second = node.handle(calls[0]), node.handle(calls[1])
    assert node.handle(calls[1]) == second
    assert node.handle(calls[0]) == first
    assert node.handle(calls[1]) == second


def test_bytes_change_no_bit() -> None:
    algorithm = FedProto(local=LOCAL)
    request, parcel = _request(algorithm), Parcel((0, 1, 3))
    called = list(_node(algorithm).answer(request, parcel))
    sent = _asked(_node(algorithm), request, 0, 1, 3)
    assert [hash_tensors(r.tensors) for r in called] == [hash_tensors(r.tensors) for r in sent]
    assert [r.values for r in called] == [r.values for r in sent]


def test_strangers_are_refused() -> None:
    algorithm = FedAvg(LOCAL)
    with pytest.raises(ProtocolError, match="client 9 does not live at this node"):
        list(_node(algorithm).answer(_request(algorithm), Parcel((0, 9))))
    failed = unpack_replies(_node(algorithm).handle(pack_call(_request(algorithm), Parcel((9,)))))
    assert isinstance(failed, ProtocolError)


def test_garbage_is_answered_with_words() -> None:
    failed = unpack_replies(_node(FedAvg(LOCAL)).handle(b"garbage"))
    assert isinstance(failed, ProtocolError)


@pytest.mark.parametrize(
    ("verb", "parcel"),
    [
        ("evaluate", Parcel((), {"first": "x"})),
        ("evaluate", Parcel((), {"last": -1})),
        ("memory", Parcel((0,), {"take": None})),
        ("personalize", Parcel((0,))),
        ("predict", Parcel((0,))),
    ],
)
def test_requests_that_make_no_sense_are_answered_with_words(verb: Verb, parcel: Parcel) -> None:
    algorithm = FedAvg(LOCAL)
    call = pack_call(_request(algorithm, verb), parcel)
    assert isinstance(unpack_replies(_node(algorithm).handle(call)), ProtocolError)


def test_evaluate_and_predict_agree() -> None:
    algorithm = FedAvg(LOCAL)
    node, people = _node(algorithm), federation.population()
    request = _request(algorithm, "evaluate", step=1)
    (own,) = _asked(node, request, 3)
    data, env = people.client(3), federation.env().at(3)
    wanted = evaluate(algorithm, request.shared, {}, data.test, env)
    assert Evaluation.from_plain(own.values) == wanted
    question = {**request.shared, INPUTS: data.test.inputs}
    (answer,) = _asked(node, replace(request, verb="predict", shared=question), 3)
    hits = answer.tensors["scores"].argmax(1) == data.test.labels
    assert int(hits.sum()) == wanted.correct


def test_predictions_at_a_site_are_averaged_over_views() -> None:
    algorithm, values = FedAvg(LOCAL), {**federation.IMAGE, "test_views": "mirror"}
    people = federation.population(values)
    inputs, env = people.client(3).test.inputs, federation.env(values)
    shared = algorithm.init(env).shared
    node = ClientNode(algorithm, env.task, people, InProcessMemory())
    request = Request("predict", {**shared, INPUTS: inputs}, step=1)
    (answer,) = _asked(node, request, 3)
    alone = algorithm.predictor(shared, {}, env).scores
    mean = (alone(env.task.prepare(inputs)) + alone(env.task.prepare(inputs.flip(3)))) / 2
    torch.testing.assert_close(answer.tensors["scores"], mean)


def test_forget_gives_the_update_to_take_out_and_deletes_what_was_kept() -> None:
    algorithm = MOON(local=LOCAL)
    node, request = _node(algorithm), _request(algorithm)
    (first,) = _asked(node, request, 0)
    (again,) = _asked(node, replace(request, verb="forget"), 0)
    assert hash_tensors(again.tensors) == hash_tensors(first.tensors)
    (kept,) = _asked(node, Request("memory", run="r"), 0)
    assert (kept.tensors, kept.values) == ({}, {"left_by": None})


def test_memory_can_be_given_and_taken() -> None:
    algorithm = MOON(local=LOCAL)
    one, other, request = _node(algorithm), _node(algorithm), _request(algorithm)
    _asked(one, request, 0)
    (kept,) = _asked(one, Request("memory", run="r"), 0)
    assert kept.values == {"left_by": 0}
    taking = Request("memory", prefixed("0", kept.tensors), run="r")
    other.handle(pack_call(taking, Parcel((0,), {"take": 0})))
    after = _request(algorithm, step=1)
    assert hash_tensors(_asked(other, after, 0)[0].tensors) == hash_tensors(
        _asked(one, after, 0)[0].tensors
    )


def test_a_result_that_is_not_sound_is_refused_and_the_memory_stays() -> None:
    algorithm = MOON(local=LOCAL)
    people = federation.population()
    node = ClientNode(algorithm, federation.task(), people, InProcessMemory())
    _asked(node, _request(algorithm), 0)
    (before,) = _asked(node, Request("memory", run="r"), 0)
    people.inputs[: people.train_sizes[0]] = torch.inf
    (reply,) = _asked(node, _request(algorithm, step=1), 0)
    assert reply.refusal is not None
    assert "client 0" in reply.refusal
    (after,) = _asked(node, Request("memory", run="r"), 0)
    assert hash_tensors(after.tensors) == hash_tensors(before.tensors)


def test_errors_that_are_the_users_come_back_as_such() -> None:
    class Failing(FedAvg):
        def client_update(
            self, shared: Tensors, memory: Tensors, data: ClientData, env: Env
        ) -> ClientResult:
            raise ConfigError("choose another")

        def can_stack(self, task: object) -> bool:
            return False

    algorithm = Failing(LOCAL)
    failed = unpack_replies(_node(algorithm).handle(pack_call(_request(algorithm), Parcel((0,)))))
    assert isinstance(failed, ConfigError)
