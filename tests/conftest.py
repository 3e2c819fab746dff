"""Settings of the whole test run."""

import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Bits depend on the number of threads, and the machine's default would decide it here."""
    torch.set_num_threads(1)
