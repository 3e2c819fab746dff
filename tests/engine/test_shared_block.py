import tempfile

import torch

from fedcord.core.tensors import hash_tensors, spec_of
from fedcord.engine.shared_block import map_block, write_block

TENSORS = {
    "bounds": torch.arange(12).reshape(3, 4),
    "odd": torch.arange(7, dtype=torch.uint8),
    "inputs": torch.rand(5, 3, 2, generator=torch.Generator().manual_seed(0)),
    "none": torch.zeros(0, 4),
    "mask": torch.tensor([True, False, True]),
}


def test_values_come_back_and_start_where_torch_would_put_them() -> None:
    with tempfile.TemporaryFile() as file:
        found = map_block(file.fileno(), write_block(TENSORS, file))
    assert spec_of(found) == spec_of(TENSORS)
    assert hash_tensors(found) == hash_tensors(TENSORS)
    assert all(tensor.data_ptr() % 64 == 0 for tensor in found.values() if tensor.numel())


def test_the_file_may_go_and_changes_stay_with_who_makes_them() -> None:
    with tempfile.TemporaryFile() as file:
        layout = write_block(TENSORS, file)
        one, two = (map_block(file.fileno(), layout) for _ in range(2))
    one["inputs"].zero_()
    assert hash_tensors(two) == hash_tensors(TENSORS)


def test_nothing_at_all_can_be_mapped() -> None:
    none = {"none": torch.zeros(0)}
    with tempfile.TemporaryFile() as file:
        found = map_block(file.fileno(), write_block(none, file))
    assert hash_tensors(found) == hash_tensors(none)
