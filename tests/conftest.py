import by_hand
import pytest


@pytest.fixture
def swarm():
    """Four particles in the box (-1, 3) x (-2, 4), written out in `by_hand`."""
    return by_hand.swarm()
