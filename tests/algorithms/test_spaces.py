"""Every shipped algorithm says where its parameters are worth looking for, or has none such."""

import pytest

from fedcord.algorithms.registry import ALGORITHMS, algorithm_class
from fedcord.core.params import build, declared_spaces, describe, value_of

CLOSED_FORMS = {"afl", "afl-aa", "afl-deep", "fedncm", "local-ridge", "safle", "fedhip"}
"""Their ridge is chosen by themselves or not there; nothing that is trained is left to tune."""
COSTLY = ("epochs", "steps", "batch_size", "width", "rounds")
"""What changes the cost of a run is not tuned by itself: contenders have the same budget."""


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_declares_its_space_or_has_nothing_to_tune(name: str) -> None:
    cls = algorithm_class(name)
    usual = build(cls, ALGORITHMS[name].preset)
    spaces = declared_spaces(usual)
    assert bool(spaces) == (name not in CLOSED_FORMS)
    for key, space in spaces.items():
        assert key.rpartition(".")[2] not in COSTLY
        assert space.holds(value_of(usual, key)), f"{key}: the default is not within {space}"
        for end in space.ends():  # what tuning may propose is what the method takes
            values: object = end
            for part in reversed(key.split(".")):
                values = {part: values}
            assert isinstance(values, dict)
            assert value_of(build(cls, values), key) == end


def test_who_descends_by_gradients_tunes_a_learning_rate() -> None:
    for name, info in ALGORITHMS.items():
        cls = algorithm_class(name)
        own = {row[0] for row in describe(cls)}
        if "local.lr" in own:
            assert "local.lr" in declared_spaces(build(cls, info.preset)), name
