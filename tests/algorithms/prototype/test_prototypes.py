import pytest
import torch

from fedcord.algorithms.prototype.diagnostics import measure
from fedcord.algorithms.prototype.prototypes import Prototypes, joined
from fedcord.core.tensors import check_tensors, num_bytes


def table(present: list[int], seed: int = 0, dim: int = 3) -> Prototypes:
    counts = torch.tensor(present, dtype=torch.int32)
    values = torch.randn(len(present), dim, generator=torch.Generator().manual_seed(seed))
    return Prototypes(values * (counts != 0)[:, None], counts)


TABLES = [table([2, 0, 5, 0], 1), table([1, 1, 0, 0], 2), table([0, 4, 7, 0], 3)]


def test_tensors_and_back() -> None:
    for each in TABLES:
        tensors = each.tensors()
        check_tensors(tensors, Prototypes.spec(4, 3, torch.int32), "client 0")
        back = Prototypes.of(tensors)
        assert torch.equal(back.values, each.values)
        assert torch.equal(back.present, each.present)
        assert num_bytes(tensors) == 4 * 4 + 4 * 3 * int(each.held.sum())


@pytest.mark.parametrize("by_samples", [False, True])
def test_the_mean_is_over_owners_only(by_samples: bool) -> None:
    weights = torch.stack([t.present for t in TABLES]) if by_samples else None
    found = joined(TABLES, weights)
    for label in range(4):
        total, parts = 0.0, torch.zeros(3, dtype=torch.float64)
        for each in TABLES:
            weight = int(each.present[label])
            weight = weight if by_samples else min(weight, 1)
            total += weight
            parts += weight * each.values[label].double()
        assert bool(found.held[label]) == (total > 0)
        wanted = parts / total if total else parts
        assert torch.allclose(found.values[label].double(), wanted, atol=1e-6)


def test_newer_rows_replace_and_missing_ones_stay() -> None:
    old, new = table([1, 1, 0, 0], 4), table([0, 1, 1, 0], 5)
    after = old.replaced_by(new)
    assert after.held.tolist() == [True, True, True, False]
    assert torch.equal(after.values[0], old.values[0])
    assert torch.equal(after.values[1:3], new.values[1:3])


def test_diagnostics_against_loops() -> None:
    before, after = table([1, 1, 0, 0], 6), table([1, 1, 1, 0], 7)
    found = measure(TABLES, before, after)
    names = {name.removeprefix("metric.prototype."): float(v) for name, v in found.items()}
    pairs = [(0, 1), (0, 2), (1, 2)]
    inter = [float((after.values[i] - after.values[j]).norm()) for i, j in pairs]
    drift = [float((after.values[i] - before.values[i]).norm()) for i in (0, 1)]
    centre, away, alike = joined(TABLES).values, [], []
    for label in range(4):
        owners = [t.values[label] for t in TABLES if t.held[label]]
        away += [float((v - centre[label]).norm()) for v in owners]
        alike += [
            float(torch.cosine_similarity(a, b, dim=0))
            for i, a in enumerate(owners)
            for j, b in enumerate(owners)
            if i != j
        ]
    wanted = {"inter_class": inter, "drift": drift, "intra_class": away, "consistency": alike}
    assert names.keys() == wanted.keys()
    for name, values in wanted.items():
        assert abs(names[name] - sum(values) / len(values)) < 1e-5


def test_diagnostics_say_nothing_where_there_is_nothing() -> None:
    nothing = Prototypes.none(4, 3)
    assert measure([], nothing, nothing) == {}
    assert set(measure([table([1, 0, 0, 0])], nothing, table([1, 0, 0, 0]))) == {
        "metric.prototype.intra_class"
    }
