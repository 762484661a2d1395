import logging
import signal
import threading

import by_hand
import pytest

if threading.current_thread() is threading.main_thread():
    # Whoever starts the tests in the background may have told them, and all their children, to ignore interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def swarm():
    """Four particles in the box (-1, 3) x (-2, 4), written out in `by_hand`."""
    return by_hand.swarm()


@pytest.fixture(autouse=True)
def _logging_as_it_was():
    """Libraries that other tests import may have changed the logging of the whole process."""
    logger = logging.getLogger("paoswarm")
    logger.disabled, logger.propagate = False, True
    logger.setLevel(logging.NOTSET)
    logging.disable(logging.NOTSET)
