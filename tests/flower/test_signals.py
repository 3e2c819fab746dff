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
    print("raised", flush=True)

signal.signal(signal.SIGINT, handled)
WAKING
threading.Thread(target=monitor, daemon=True).start()
threading.Event().wait()
"""


def app(waking: str) -> list[str]:
    return [sys.executable, "-c", APP.replace("WAKING", waking)]


def test_it_ends_a_wait_of_the_main_thread() -> None:
    woken = app("let_signals_wake_main_thread()")
    done = subprocess.run(woken, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "handled 2\n"


def test_without_waking_the_wait_goes_on() -> None:
    """What Python does by itself; if this fails, `signals.py` is not needed any more."""
    with subprocess.Popen(app(""), stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout is not None
        assert waiting.stdout.readline() == "raised\n"
        with pytest.raises(subprocess.TimeoutExpired):
            waiting.wait(2)
        waiting.kill()
