"""Servers that fuse uploads: what they reduce to, options, refusals."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fedcord.algorithms.kit.encoder import encoder_tensors
from fedcord.algorithms.oneshot.member import Member
from fedcord.algorithms.oneshot.oneshot import first_message
from fedcord.algorithms.oneshot.servers.aggregator import Common
from fedcord.algorithms.oneshot.servers.feature_ensemble import PROTOTYPES, WEIGHTS
from fedcord.algorithms.oneshot.servers.iffi import IFFI
from fedcord.algorithms.oneshot.servers.noise import NOISE, informativeness
from fedcord.algorithms.oneshot.servers.server import KINDS, Server
from fedcord.core.contract import Env
from fedcord.core.errors import ConfigError, ProtocolError
from fedcord.core.examples import ClientData
from tests.federation import IMAGE, VECTOR, env, examples

TEXT: dict[str, object] = {
    **VECTOR,
    "kind": "text",
    "input_shape": [5],
    "vocabulary": 20,
    "models": ["text"],
}


def models(*names: str) -> dict[str, object]:
    return {**VECTOR, "models": list(names)}


def member(
    server: Server, here: Env, client: int, seed: int, values: dict[str, object], size: float
) -> Member:
    """A client with drawn weights whose batch-norm statistics are no longer the initial ones."""
    generator = torch.Generator().manual_seed(seed)
    network = here.task.initial_network(generator, client)
    for name, buffer in network.named_buffers():
        if buffer.is_floating_point():
            drawn = torch.rand(buffer.shape, generator=generator)
            buffer.copy_(0.05 + drawn if name.endswith("var") else 0.2 * drawn - 0.1)
    prototypes = torch.randn(3, int(network.feature_dim), generator=generator)  # type: ignore[arg-type]
    own = examples(12, seed, values)
    extra = server.extra_upload(network, prototypes, ClientData(own, own, own), here.at(client))
    counts = torch.bincount(own.labels, minlength=3).float()
    return Member(encoder_tensors(network), prototypes, counts, size, extra)


def members(
    server: Server, here: Env, values: dict[str, object], sizes: tuple[float, ...] = (40, 25, 5)
) -> dict[int, Member]:
    return {k: member(server, here, k, 10 + k, values, size) for k, size in enumerate(sizes)}


def anchors(here: Env) -> Tensor:
    dim = int(here.task.scratch_network().feature_dim)  # type: ignore[arg-type]
    return F.normalize(torch.randn(3, dim, generator=torch.Generator().manual_seed(1)), dim=1)


def common(here: Env) -> Common:
    return Common(anchors(here), first_message(here))


def inputs(here: Env, values: dict[str, object], count: int = 9) -> Tensor:
    return here.task.prepare(examples(count, 77, values).inputs)


def own_features(here: Env, model: Any, x: Tensor, client: int = 0) -> Tensor:
    """Features by a freshly built network: no stacking, no reuse."""
    network = here.task.networks[client % len(here.task.networks)](None)
    network.load_state_dict({**network.state_dict(), **model})
    network.eval()
    with torch.no_grad():
        return network.features(x)  # type: ignore[operator, no-any-return]


@pytest.mark.parametrize("values", [VECTOR, IMAGE], ids=["mlp", "resnet"])
@pytest.mark.parametrize(
    "kind",
    ["feature_ensemble", "iffi", "iffi_released", "param_avg", "lpa", "fisher", "logit_ensemble"],
)
def test_24_identical_clients_predict_like_one(kind: str, values: dict[str, object]) -> None:
    server, here = Server(kind=kind), env(values)
    one = member(server, here, 0, 3, values, 7.0)
    same = {k: dataclasses.replace(one, size=size) for k, size in enumerate((7.0, 1.0, 90.0))}
    x = inputs(here, values)
    scores = server.scores(server.fuse(same, Common(), here), here)(x)
    wanted = F.normalize(own_features(here, one.model, x), dim=1) @ one.prototypes.T
    torch.testing.assert_close(scores, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_one_client_alone_decides(kind: str) -> None:
    server, here = Server(kind=kind), env()
    alone = {4: member(server, here, 4, 3, VECTOR, 7.0)}
    x = inputs(here, VECTOR)
    scores = server.scores(server.fuse(alone, common(here), here), here)(x)
    z = F.normalize(own_features(here, alone[4].model, x), dim=1)
    # which replace the client's prototypes, or leave a part of its weights out
    if kind not in ("trainable_protos", "ties", "dare"):
        assert scores.argmax(1).tolist() == (z @ alone[4].prototypes.T).argmax(1).tolist()
    assert scores.shape == (9, 3)


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("values", [VECTOR, IMAGE], ids=["mlp", "resnet"])
def test_25_released_iffi_is_the_uniform_ensemble_for_any_noise(
    seed: int, values: dict[str, object]
) -> None:
    here = env(values, seed=seed)
    released, uniform = Server(kind="iffi_released"), Server(weighting="uniform")
    uploads, x = members(released, here, values), inputs(here, values)
    found = released.scores(released.fuse(uploads, Common(), here), here)(x)
    wanted = uniform.scores(uniform.fuse(uploads, Common(), here), here)(x)
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    by_size = Server().scores(Server().fuse(uploads, Common(), here), here)(x)
    assert not torch.allclose(found, by_size, atol=1e-3)
    true = Server(kind="iffi")
    assert not torch.allclose(found, true.scores(true.fuse(uploads, Common(), here), here)(x))


@pytest.mark.parametrize("kind", KINDS)
def test_26_the_order_of_arrival_changes_nothing(kind: str) -> None:
    server, here = Server(kind=kind), env()
    uploads = members(server, here, VECTOR)
    backwards = dict(reversed(uploads.items()))
    x = inputs(here, VECTOR)
    found = [
        server.scores(server.fuse(held, common(here), here), here)(x)
        for held in (uploads, backwards)
    ]
    assert torch.equal(found[0], found[1])


@pytest.mark.parametrize("values", [VECTOR, IMAGE], ids=["mlp", "resnet"])
@pytest.mark.parametrize("kind", [k for k in KINDS if k not in ("trainable_protos", "dare")])
def test_26_renumbering_clients_changes_nothing(kind: str, values: dict[str, object]) -> None:
    server, here = Server(kind=kind), env(values)
    uploads = members(server, here, values)
    renumbered = {0: uploads[2], 1: uploads[0], 5: uploads[1]}
    x = inputs(here, values)
    found = [
        server.scores(server.fuse(held, common(here), here), here)(x)
        for held in (uploads, renumbered)
    ]
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


def test_27_prototypes_are_a_plain_mean_whatever_the_sizes() -> None:
    server, here = Server(), env()
    uploads = members(server, here, VECTOR, (1, 1000, 3))
    fused = server.fuse(uploads, Common(), here)
    wanted = sum(m.prototypes for m in uploads.values()) / 3
    torch.testing.assert_close(fused[PROTOTYPES], wanted)
    torch.testing.assert_close(fused[WEIGHTS], torch.tensor([1.0, 1000.0, 3.0]) / 1004)


def test_prototypes_by_counts_ignore_members_without_the_class() -> None:
    server, here = Server(proto_weighting="counts"), env()
    uploads = members(server, here, VECTOR)
    counts = [[4.0, 0.0, 0.0], [1.0, 2.0, 0.0], [0.0, 6.0, 0.0]]
    uploads = {
        k: dataclasses.replace(m, counts=torch.tensor(counts[k])) for k, m in uploads.items()
    }
    found = server.fuse(uploads, Common(), here)[PROTOTYPES]
    for c in range(3):
        total = sum(counts[k][c] for k in range(3))
        for d in range(found.shape[1]):
            column = [float(uploads[k].prototypes[c, d]) for k in range(3)]
            if total == 0:  # nobody holds the class
                wanted = sum(column) / 3
            else:
                wanted = sum(counts[k][c] * column[k] for k in range(3)) / total
            assert float(found[c, d]) == pytest.approx(wanted, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("values", [VECTOR, IMAGE], ids=["mlp", "resnet"])
def test_feature_ensemble_sums_raw_features_by_size(values: dict[str, object]) -> None:
    server, here = Server(), env(values)
    uploads, x = members(server, here, values), inputs(here, values)
    found = server.scores(server.fuse(uploads, Common(), here), here)(x)
    parts = [m.size / 70 * own_features(here, m.model, x) for m in uploads.values()]
    mean = torch.stack([m.prototypes for m in uploads.values()]).mean(0)
    fused = parts[0] + parts[1] + parts[2]
    wanted = fused / fused.norm(dim=1, keepdim=True) @ mean.T
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


def test_output_ensembles_average_what_each_member_says() -> None:
    here = env()
    uploads, x = members(Server(), here, VECTOR), inputs(here, VECTOR)
    logits = [
        F.normalize(own_features(here, m.model, x), dim=1) @ m.prototypes.T
        for m in uploads.values()
    ]
    weights = [m.size / 70 for m in uploads.values()]
    for kind in ("logit_ensemble", "prob_ensemble"):
        server = Server(kind=kind)
        found = server.scores(server.fuse(uploads, Common(), here), here)(x)
        says = [s.softmax(1) for s in logits] if kind == "prob_ensemble" else logits
        wanted = weights[0] * says[0] + weights[1] * says[1] + weights[2] * says[2]
        torch.testing.assert_close(found.exp() if kind == "prob_ensemble" else found, wanted)


def test_iffi_weighs_members_by_distance_from_noise_per_input() -> None:
    server, here = Server(kind="iffi", noise_samples=5), env()
    uploads, x = members(server, here, VECTOR), inputs(here, VECTOR)
    fused = server.fuse(uploads, Common(), here)
    found = server.scores(fused, here)(x)
    noise = torch.randn(5, 8, generator=here.generator("iffi-noise"))
    rows = []
    for row in x:
        informative, features = [], []
        for m in uploads.values():
            f = own_features(here, m.model, row[None])[0]
            seen = [own_features(here, m.model, nu[None])[0] for nu in noise]
            cosines = [float(f @ s / (f.norm() * s.norm()).clamp(min=1e-12)) for s in seen]
            informative.append(1 - sum(cosines) / 5)
            features.append(f)
        total = sum(informative)
        mixed = sum(d / total * f for d, f in zip(informative, features, strict=True))
        assert isinstance(mixed, Tensor)
        rows.append(mixed / mixed.norm() @ fused[PROTOTYPES].T)
    torch.testing.assert_close(found, torch.stack(rows), rtol=1e-4, atol=1e-5)
    by_size = dataclasses.replace(server, iffi_by_size=True)
    assert not torch.allclose(by_size.scores(by_size.fuse(uploads, Common(), here), here)(x), found)


def test_14_a_zero_feature_counts_as_fully_informative() -> None:
    d = informativeness(torch.zeros(2, 4), F.normalize(torch.ones(4), dim=0))
    assert d.tolist() == [1.0, 1.0]


def test_iffi_falls_back_to_the_plain_sum_when_nothing_differs_from_noise() -> None:
    server, here = Server(kind="iffi"), env()
    aggregator = server._aggregator()
    assert isinstance(aggregator, IFFI)
    uploads, x = members(server, here, VECTOR), inputs(here, VECTOR, 1)
    fused = server.fuse(uploads, Common(), here)
    directions = [F.normalize(own_features(here, m.model, x), dim=1)[0] for m in uploads.values()]
    fused[NOISE] = 1.01 * torch.stack(directions)  # a hair longer, so that 1 − cos is clamped to 0
    uniform = Server(weighting="uniform")
    wanted = uniform.scores(uniform.fuse(uploads, Common(), here), here)(x)
    torch.testing.assert_close(server.scores(fused, here)(x), wanted)


@pytest.mark.parametrize("kind", ["feature_ensemble", "prob_ensemble", "iffi"])
def test_batch_statistics_are_the_batch_s_and_leave_no_mode_behind(kind: str) -> None:
    server, here = Server(kind=kind, ensemble_bn="batch"), env(IMAGE)
    running = dataclasses.replace(server, ensemble_bn="running")
    uploads, x = members(server, here, IMAGE), inputs(here, IMAGE)
    fused, other = server.fuse(uploads, Common(), here), running.fuse(uploads, Common(), here)
    assert not torch.allclose(server.scores(fused, here)(x)[:4], server.scores(fused, here)(x[:4]))
    torch.testing.assert_close(
        running.scores(other, here)(x)[:4],
        running.scores(other, here)(x[:4]),
        rtol=1e-4,
        atol=1e-5,
    )
    assert not here.task.scratch_network().training


@pytest.mark.parametrize("buffers", ["mean", "first"])
def test_param_avg_weighs_weights_and_offers_the_released_buffers(buffers: str) -> None:
    server, here = Server(kind="param_avg", buffers=buffers), env(IMAGE)
    uploads = members(server, here, IMAGE)
    fused = server.fuse(uploads, Common(), here)
    for name, first in uploads[0].model.items():
        found = fused[f"fused.model.{name}"]
        values = [m.model[name] for m in uploads.values()]
        if not first.is_floating_point():
            assert int(found) == max(int(v) for v in values)
        elif buffers == "first" and "running" in name:
            assert torch.equal(found, first)
        else:
            wanted = (40 * values[0] + 25 * values[1] + 5 * values[2]) / 70
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_architectures_may_differ_where_features_are_equally_long() -> None:
    values = models("mlp:16", "mlp:24-16")
    server, here = Server(), env(values)
    uploads, x = members(server, here, values), inputs(here, values)
    found = server.scores(server.fuse(uploads, Common(), here), here)(x)
    fused = torch.zeros(9, 16)
    for client, m in uploads.items():
        fused += m.size / 70 * own_features(here, m.model, x, client)
    mean = torch.stack([m.prototypes for m in uploads.values()]).mean(0)
    torch.testing.assert_close(found, F.normalize(fused, dim=1) @ mean.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["feature_ensemble", "iffi", "iffi_released", "trainable_protos"])
def test_unequal_feature_dimensions_are_refused_with_the_way_out(kind: str) -> None:
    values = models("mlp:16", "mlp:24")
    server, here = Server(kind=kind), env(values)
    with pytest.raises(ConfigError, match=r"client 1 has prototypes \[3, 24\].*prob_ensemble"):
        server.fuse(members(server, here, values), common(here), here)
    loose = Server(kind="prob_ensemble")
    scores = loose.scores(loose.fuse(members(loose, here, values), Common(), here), here)(
        inputs(here, values)
    )
    assert scores.shape == (9, 3)


@pytest.mark.parametrize("kind", ["param_avg", "lpa"])
def test_fusing_weights_refuses_two_architectures(kind: str) -> None:
    values = models("mlp:16", "mlp:24-16")
    server, here = Server(kind=kind), env(values)
    with pytest.raises(ConfigError, match=r"client 0 and client 1 differ in .*fusing weights"):
        server.fuse(members(server, here, values), Common(), here)


def test_14_members_without_examples_are_left_out() -> None:
    server, here = Server(weighting="uniform"), env()
    uploads = members(server, here, VECTOR)
    nothing = {k: dataclasses.replace(m, size=0.0) for k, m in uploads.items()}
    kept = {0: uploads[0], 2: uploads[2]}
    found = server.fuse({**kept, 1: nothing[1]}, Common(), here)
    wanted = server.fuse(kept, Common(), here)
    assert found.keys() == wanted.keys()
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)
    with pytest.raises(ProtocolError, match="none of 3 members trained on an example"):
        server.fuse(nothing, Common(), here)


def test_iffi_refuses_text_and_other_servers_read_it() -> None:
    here = env(TEXT)
    for kind in ("iffi", "iffi_released"):
        (error,) = Server(kind=kind).review(here.task).errors
        assert "token ids cannot be; choose server.kind=feature_ensemble" in error
    network = here.task.initial_network(torch.Generator().manual_seed(0))
    one = Member(encoder_tensors(network), torch.randn(3, network.feature_dim), torch.ones(3), 3.0)  # type: ignore[call-overload]
    tokens = torch.randint(1, 20, (4, 5))
    plain = Server()
    assert plain.review(here.task).errors == ()
    assert plain.scores(plain.fuse({0: one}, Common(), here), here)(tokens).shape == (4, 3)


def test_a_member_of_another_network_is_named() -> None:
    server, here = Server(), env()
    fused = server.fuse(members(server, here, VECTOR), Common(), here)
    name = "ensemble.0.model.linear_layers.0.bias"
    other = {n: t for n, t in fused.items() if n != name}
    here.task.scratch_network().linear_layers.append(torch.nn.BatchNorm1d(3))  # type: ignore[union-attr, operator]
    with pytest.raises(ProtocolError, match=r"differ in .*linear_layers.0.bias"):
        server.scores(other, here)(inputs(here, VECTOR))


def test_unknown_kinds_and_options_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Server.kind = 'mean': must be one of param_avg"):
        Server(kind="mean")
    with pytest.raises(ConfigError, match="noise_samples = 0: must be >= 1"):
        Server(noise_samples=0)
