"""Waiting for conditions instead of for clocks: tests are as right on a loaded machine as on an idle one.

Nothing here has a time limit of its own. What hangs is ended by pytest's limit, which only has to be long.
"""

import os
import signal
import threading
import time
from contextlib import contextmanager


class Clock:
    """In place of ``time.monotonic``: it moves when it is told to, and by ``step`` whenever somebody looks at it."""

    def __init__(self, monkeypatch, step=0.0):
        self.seconds, self.step, self._lock = 1000.0, step, threading.Lock()
        monkeypatch.setattr(time, "monotonic", self.look)

    def look(self):
        self.wait(self.step)
        return self.seconds

    def wait(self, seconds):
        with self._lock:
            self.seconds += seconds


def until(holds, pause=0.005):
    """Wait until a condition holds."""
    while not holds():
        time.sleep(pause)


@contextmanager
def interrupted_when(holds):
    """Interrupt this process, as by Ctrl-C, as soon as a condition holds."""

    def interrupt():
        until(holds)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        yield
    finally:
        thread.join()
