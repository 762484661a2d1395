import os
import time
import uuid
from pathlib import Path

import fault_functions
import pytest


def pytest_collection_modifyitems(items):
    """Starting processes takes seconds on a busy machine, and a few quick points never make up for it."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore:the function was busy for"))


@pytest.fixture
def tolerated():
    """Whether a process may stay, by its command line. Modules that keep a cluster override this."""
    return lambda command: False


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch, tolerated):
    """After every test, no process that it has started is alive, even if its parent has changed since."""
    if not os.path.isdir("/proc/self"):
        yield
        return
    mark = f"PAOSWARM_TEST_{uuid.uuid4().hex}"
    monkeypatch.setenv(mark, "1")  # inherited: it identifies a process whose parent is gone
    began = fault_functions.clock_ticks()
    # A pool for the whole module may have started in the same clock tick.
    before = set(fault_functions.child_processes(began, mark))
    yield

    def left():
        found = fault_functions.child_processes(began, mark).items()
        return {pid: words for pid, words in found if pid not in before and not tolerated(words)}

    until = time.monotonic() + 300  # workers check every half second whether their parent is alive
    while left() and time.monotonic() < until:
        time.sleep(0.02)
    assert left() == {}
