"""Times that a store does not record are worked out from those that it does: a simulated schedule is recovered."""

import heapq

import numpy as np
import pytest
from numpy.testing import assert_allclose
from written_stores import evaluation, header, opened, write

from paoswarm.explorer import run_views as views
from paoswarm.helpers import GrowingStore


def asynchronous(durations, workers):
    """Records of an asynchronous run whose workers always have a point, as they arrive."""
    running = [(duration, number) for number, duration in enumerate(durations[:workers])]
    heapq.heapify(running)
    asked = len(running)
    records = [opened(0.0)]
    while running:
        t, number = heapq.heappop(running)
        records.append(evaluation(number, t, 1.0, asked=asked))
        if asked < len(durations):
            heapq.heappush(running, (t + durations[asked], asked))
            asked += 1
    return records


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_times_of_an_asynchronous_run_are_recovered(tmp_path, workers):
    durations = np.random.default_rng(workers).integers(1, 1000, 60).astype(float)
    store = GrowingStore(write(tmp_path / "run", header(workers=workers), asynchronous(durations, workers)))
    found, how = views.durations(store, views.gaps(store))
    assert_allclose(found, durations[store.number])
    assert "sent" in how
    said = views.timing(store)
    assert_allclose(said["use"], durations.sum() / (workers * store.time[-1]))
    assert 0.5 < said["use"] <= 1


def test_a_pause_between_two_processes_does_not_count(tmp_path):
    first = [opened(0.0), evaluation(0, 2.0, 1.0), evaluation(1, 5.0, 1.0)]
    second = [opened(1000.0, pid=2), evaluation(2, 1001.0, 1.0)]
    store = GrowingStore(write(tmp_path / "run", header(), [*first, *second]))
    assert views.gaps(store).tolist() == [2, 3, 1]
    said = views.timing(store)
    assert said["active"] == 6
    assert (said["rate"] * np.diff(said["edges"])).sum() == pytest.approx(3)
    assert said["durations"].tolist() == np.quantile([2, 3, 1], [0, 0.1, 0.5, 0.9, 1]).tolist()
    assert [session.row for session in views.sessions(store)] == [0, 2]


def test_points_of_one_record_share_its_time(tmp_path):
    together = {"i": 0, "t": 6.0, "x": [[0.0, 0.0]] * 3, "f": [1.0, 2.0, 3.0]}
    store = GrowingStore(write(tmp_path / "run", header(), [opened(0.0), together, evaluation(3, 7.0, 1.0)]))
    assert views.gaps(store).tolist() == [2, 2, 2, 1]


def test_with_several_workers_only_a_limit_is_said(tmp_path):
    records = [opened(0.0), *(evaluation(i, 1.0 + i, 1.0) for i in range(4))]
    said = views.timing(GrowingStore(write(tmp_path / "run", header(workers=2), records)))
    assert len(said["durations"]) == 0
    assert said["limit"] == 2.0
    assert np.isnan(said["use"])


def test_a_clock_that_was_set_back_is_no_negative_time(tmp_path):
    records = [opened(10.0), evaluation(0, 5.0, 1.0), evaluation(1, 4.0, 1.0), evaluation(2, 6.0, 1.0)]
    store = GrowingStore(write(tmp_path / "run", header(), records))
    assert views.gaps(store).tolist() == [0, 0, 2]
