"""Settings of the whole test run."""

import signal

import pytest
import torch
from hypothesis import settings

settings.register_profile("untimed", deadline=None)  # a busy machine is slow, not wrong
settings.load_profile("untimed")


def pytest_configure() -> None:
    """Ctrl-C is tested also where the tests were started in the background, which ignores it.

    Processes that tests start take this over; workers of pytest-xdist get it from their parent.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Bits depend on the number of threads, and the machine's default would decide it here."""
    torch.set_num_threads(1)
