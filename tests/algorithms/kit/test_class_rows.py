import pytest
import torch

from fedcord.algorithms.kit.class_means import dense_rows, present_rows


@pytest.mark.parametrize("present", [[0, 3, 0, 1], [0, 0, 0, 0], [1, 1, 2, 1]])
def test_what_is_present_comes_back_in_its_place(present: list[int]) -> None:
    counts = torch.tensor(present)
    dense = torch.arange(12.0).reshape(4, 3) + 1
    rows = present_rows(dense, counts)
    back = dense_rows(rows, counts)
    assert rows.shape == (sum(c > 0 for c in present), 3)
    for number, count in enumerate(present):
        wanted = dense[number] if count else torch.zeros(3)
        assert torch.equal(back[number], wanted)
