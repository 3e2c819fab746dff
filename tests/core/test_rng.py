import itertools

import numpy as np
import torch

from fedcord.core.rng import derive_seed, numpy_generator, torch_generator


def test_every_part_of_the_address_matters_and_nothing_else() -> None:
    addresses = list(itertools.product((0, 1), ("init", "batches"), (0, 1), (-1, 0, 1)))
    seeds = {derive_seed(*address) for address in addresses}
    assert len(seeds) == len(addresses)
    assert derive_seed(0, "init", 0, 1) == derive_seed(0, "init", 0, 1)


def test_streams_repeat_and_leave_the_global_generators_alone() -> None:
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # type: ignore[index] # noqa: NPY002
    first = torch.rand(4, generator=torch_generator(3, "a", 1, 2))
    again = torch.rand(4, generator=torch_generator(3, "a", 1, 2))
    other = torch.rand(4, generator=torch_generator(3, "a", 1, 3))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert numpy_generator(3, "a").random() == numpy_generator(3, "a").random()
    assert torch.equal(torch_before, torch.get_rng_state())
    assert np.array_equal(numpy_before, np.random.get_state()[1])  # type: ignore[index] # noqa: NPY002
