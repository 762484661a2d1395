import os
import time
import uuid
from pathlib import Path

import fault_functions
import pytest


def pytest_collection_modifyitems(items):
    """To start processes takes seconds on a busy machine, and a few quick points never make up for it."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore:fun was busy for"))


@pytest.fixture
def tolerated():
    """Whether a process may stay, by its command line; modules with a cluster of their own have a word to say."""
    return lambda command: False


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch, tolerated):
    """After every test no process is alive that it has started, whoever's child that is by then."""
    if not os.path.isdir("/proc/self"):
        yield
        return
    mark = f"PAOSWARM_TEST_{uuid.uuid4().hex}"
    monkeypatch.setenv(mark, "1")  # known by it when its parent is gone
    began = fault_functions.now()
    there = set(fault_functions.family(began, mark))  # a pool for the whole module may have started in the same moment
    yield

    def left():
        found = fault_functions.family(began, mark).items()
        return {pid: words for pid, words in found if pid not in there and not tolerated(words)}

    until = time.monotonic() + 15  # workers look every half second whether their parent still lives
    while left() and time.monotonic() < until:
        time.sleep(0.02)
    assert left() == {}
