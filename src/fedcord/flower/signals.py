"""Lets a signal end a wait of the main thread, whichever thread it was delivered to.

Python handles signals in the main thread, as soon as that has something to do. Flower tells an app
that its SuperLink has died by raising a signal in a thread of its own, which does not wake a main
thread that waits for another one. Such an app would wait for ever, and hold its run's folder.
"""

from __future__ import annotations

import signal
import socket
import threading

WAKING = signal.SIGUSR1


def let_signals_wake_main_thread() -> None:
    """From now on, in this process; to be called in its main thread."""
    main_thread = threading.get_ident()
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)
    signal.signal(WAKING, lambda number, frame: None)
    signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)

    def pass_on() -> None:
        with pythons:  # it closes when nothing refers to it
            while number := ours.recv(1):
                if number[0] != WAKING:
                    signal.pthread_kill(main_thread, WAKING)

    threading.Thread(target=pass_on, name="wake main thread", daemon=True).start()
