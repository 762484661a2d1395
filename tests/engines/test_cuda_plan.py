"""Which kernels move which swarms: what every layout must hold to, on any machine."""

import pytest

from paoswarm.engines.cuda.plan import plan_for

SHARED = 227 * 1024  # bytes that a block may have on the devices that we know


@pytest.mark.parametrize("runs", [1, 2, 17, 132, 1000, 10_000])
@pytest.mark.parametrize("n", [2, 31, 100, 1000, 1024, 1025, 20_000, 10**6])
@pytest.mark.parametrize("d", [1, 8, 16, 17, 48, 49, 100, 1000])
def test_every_layout_fits_the_device(runs, n, d):
    processors = 132
    kind, threads, share, shared_bytes = plan_for(runs, n, d, processors)
    assert threads % 32 == 0
    assert threads <= 1024
    assert share >= 1
    if kind == "resident":  # a thread for each particle, within registers or shared memory
        assert share * n <= threads < share * n + 32
        assert d <= 48
    if kind == "together":  # blocks wait for each other, so all must be there at once
        assert -(-n // share) * runs <= processors
        assert shared_bytes >= 4 * share * 3 * d
    # What the kernels have besides: leader and bounds of each run, some numbers of each particle, ranks and sums.
    fixed = 16 * d * (share if kind == "resident" else 1) + 16 * (threads if kind == "resident" else share) + 1024
    assert fixed <= 48 * 1024
    assert shared_bytes + fixed <= SHARED


def test_small_swarms_share_blocks_and_large_ones_share_the_device():
    assert plan_for(1000, 100, 8, 132)[:3] == ("resident", 800, 8)  # 125 blocks without an idle thread
    assert plan_for(10_000, 100, 30, 132)[:3] == ("resident", 128, 1)
    assert plan_for(1, 100, 8, 132).kind == "resident"
    assert plan_for(1, 1000, 30, 132).kind == "together"
    assert plan_for(1, 10_000, 100, 132).kind == "together"
    assert plan_for(1, 10**6, 100, 132).kind == "streaming"
