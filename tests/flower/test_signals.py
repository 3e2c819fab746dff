"""A signal that another thread raises, as Flower does when a SuperLink has died."""

import subprocess
import sys

import pytest

APP = """
import signal, threading, time
from fedcord.flower.signals import let_signals_wake_main_thread

def handled(number, frame):
    raise SystemExit(f"handled {number}")

def monitor():
    time.sleep(0.3)
    signal.raise_signal(signal.SIGINT)

signal.signal(signal.SIGINT, handled)
WAKING
threading.Thread(target=monitor, daemon=True).start()
threading.Event().wait()
"""


def ended(waking: str, seconds: float) -> str:
    command = [sys.executable, "-c", APP.replace("WAKING", waking)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    return done.stderr


def test_it_ends_a_wait_of_the_main_thread() -> None:
    assert ended("let_signals_wake_main_thread()", 60) == "handled 2\n"


def test_without_waking_the_wait_goes_on() -> None:
    """What Python does by itself; if this fails, `signals.py` is not needed any more."""
    with pytest.raises(subprocess.TimeoutExpired):
        ended("", 5)
