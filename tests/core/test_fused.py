"""The compiled loops agree with NumPy to the last bit, or leave the work to NumPy."""

import math
import subprocess
import sys

import numpy as np
import pytest

import paoswarm as ps
from paoswarm.core import fused
from paoswarm.core.random import Draw
from paoswarm.core.swarm import Proposal, Swarm, record, start

needs_compiler = pytest.mark.skipif(fused.compiled is None, reason="paoswarm was built without a C compiler")


@pytest.fixture
def by_numpy(monkeypatch):
    def run(function):
        with monkeypatch.context() as patch:
            patch.setattr(fused, "compiled", None)
            return function()

    return run


def wild(batch, n, d, seed):
    """A swarm with velocities far beyond the walls, failed points, ties and a plateau."""
    rng = np.random.default_rng(seed)
    value = np.round(rng.normal(size=(*batch, n)), 1)
    value[..., ::7] = np.nan
    swarm = start(rng.uniform(-1, 3, (*batch, n, d)), value, np.full(d, -1.0), np.full(d, 3.0))
    return swarm._replace(
        velocity=3 * rng.normal(size=swarm.position.shape), age=rng.integers(9, size=value.shape) * 1.0
    )


def assert_same_bits(first, second):
    for name, one, other in zip(first._fields, first, second, strict=True):
        if isinstance(one, np.ndarray | np.floating):
            assert one.shape == other.shape, name
            assert one.dtype == other.dtype, name
            assert one.tobytes() == other.tobytes(), name
        else:
            assert one is other, name


@needs_compiler
@pytest.mark.parametrize("shape", [((), 1, 1), ((), 5, 3), ((), 100, 8), ((3,), 7, 2), ((40,), 100, 8), ((2, 3), 4, 5)])
def test_a_step_has_the_bits_of_numpy(shape, by_numpy):
    batch, n, d = shape
    swarm = wild(batch, n, d, 1)
    method = ps.PAO(mass=1.7, damping=0.25, stiffness=(0.6, 1.7), noise=1.1, dt=0.9)

    def move():
        return method.ask(swarm, Draw([np.random.default_rng(s) for s in range(math.prod(batch))], batch))

    moved = move()
    assert_same_bits(moved, by_numpy(move))
    if n * d >= 15:
        on_walls = (moved.position == -1) | (moved.position == 3)
        assert 0.1 < on_walls.mean() < 0.9


@needs_compiler
@pytest.mark.parametrize("shape", [((), 1, 1), ((), 100, 8), ((3,), 7, 2), ((40,), 100, 8), ((2, 3), 4, 5)])
def test_bests_have_the_bits_of_numpy(shape, by_numpy):
    batch, n, d = shape
    swarm = wild(batch, n, d, 2)
    rng = np.random.default_rng(3)
    proposal = Proposal(rng.uniform(-1, 3, (*batch, n, d)), rng.normal(size=(*batch, n, d)))
    value = np.round(rng.normal(size=(*batch, n)), 1)  # some are equal to the best so far
    value[..., ::5] = np.nan
    value[..., 3::11] = -np.inf
    after = record(swarm, proposal, value)
    assert_same_bits(after, by_numpy(lambda: record(swarm, proposal, value)))
    if n == 100:
        assert (value == swarm.best_value).any()
        assert 0.05 < (after.age == 0).mean() < 0.95


def shifted_rastrigin(x):
    f = (x * x - 10.0 * np.cos(2 * np.pi * x) + 10.0 + 3 * x).sum(axis=-1)
    return np.where(x[..., 0] > 2, np.nan, f)


@needs_compiler
def test_whole_runs_have_the_bits_of_numpy(by_numpy):
    """Alone and in batches whose deviates are drawn ahead, or at once in single precision."""
    bounds = [(-3, 1), (-4, 5), (-5, 0.5)]

    def alone():
        result = ps.minimize(
            shifted_rastrigin, bounds, method=ps.PAO(), vectorized=True, n_particles=30, maxiter=60, rng=1
        )
        return result.swarm

    def together():
        many = ps.minimize_many(
            shifted_rastrigin, bounds, method=ps.PAO(), runs=5, vectorized=True, n_particles=30, maxiter=60, rng=1
        )
        return many.swarm

    def large():
        few = {"runs": 7, "n_particles": 1500, "maxiter": 3, "time_limit": 60}  # with a clock: all in one block
        return ps.minimize_many(shifted_rastrigin, bounds, method=ps.PAO(), vectorized=True, **few, rng=1).swarm

    for run in (alone, together, large):
        assert_same_bits(run(), by_numpy(run))


@needs_compiler
@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (ps.PAO(), True),
        (ps.PAO(damping=0.25, dt=0.5, stiffness=0.8), True),
        (ps.PAO(walls="reflect"), False),
        (ps.PAO(dt=lambda progress: 1 - 0.5 * progress), False),
        (ps.PAO(dt=np.linspace(0.5, 1.5, 20)), False),
        (ps.PAO(noise_scale=ps.noise.mean_to_best), False),
        (ps.PAO(attractors=(ps.attractors.global_best, ps.attractors.local_best)), False),
        (ps.PAO(attractors=ps.attractors.local_best, stiffness=1.0), False),
    ],
)
def test_only_supported_swarms_are_moved_by_it(method, expected, monkeypatch):
    calls = {"step": 0, "record": 0}

    class Counted:
        def __getattr__(self, name):
            calls[name] += 1
            return getattr(compiled, name)

    compiled = fused.compiled
    monkeypatch.setattr(fused, "compiled", Counted())
    ps.minimize(shifted_rastrigin, [(-3, 1)] * 2, method=method, vectorized=True, n_particles=20, maxiter=9, rng=1)
    assert calls == {"step": 9 if expected else 0, "record": 9}


def test_the_package_gives_the_same_numbers_without_the_compiled_part():
    """A process without it is compared with this process, which may have it."""
    code = """
import sys
sys.modules["paoswarm.core._fused"] = None
import paoswarm as ps
from paoswarm.core import fused
assert fused.compiled is None
bowl = lambda x: ((x - 1) ** 2).sum(axis=-1)
result = ps.minimize(bowl, [(-5, 3)] * 3, method='PAO', vectorized=True, maxiter=30, rng=1)
print(result.x.tobytes().hex())
"""
    result = ps.minimize(
        lambda x: ((x - 1) ** 2).sum(axis=-1), [(-5, 3)] * 3, method=ps.PAO(), vectorized=True, maxiter=30, rng=1
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == result.x.tobytes().hex()


def arrays_of(name):
    """Arguments of the compiled function, and the positions of those it writes to."""
    n, d = 5, 2
    full, row = (lambda: np.full((n, d), 0.5)), (lambda: np.full(n, 0.5))
    if name == "step":
        ends = [np.zeros((n, d)), np.ones((n, d)), np.ones(10)]
        return [full(), full(), full(), full(), np.ones((2, n, d)), *ends, full(), full()], [8, 9]
    return [row(), row(), row(), full(), full(), row(), row(), full(), full(), np.ones(1)], [5, 6, 7, 8, 9]


def misaligned(array):
    raw = np.zeros(array.nbytes + 1, dtype=np.uint8)[1:]
    view = raw.view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def locked(array):
    array.flags.writeable = False
    return array


WRONG = {
    "too long": lambda a: np.concatenate([a, a]),
    "too short": lambda a: a[:-1].copy() if len(a) > 1 else np.empty(0),
    "integers": lambda a: a.astype(np.int64),
    "half precision": lambda a: a.astype(np.float16),
    "foreign byte order": lambda a: a.astype(a.dtype.newbyteorder()),
    "with gaps": lambda a: np.repeat(a, 2, axis=-1)[..., ::2],
    "misaligned": misaligned,
    "a list": lambda a: a.tolist(),
}


@needs_compiler
@pytest.mark.parametrize("name", ["step", "record"])
def test_unsupported_arrays_are_refused_and_not_written(name):
    function = getattr(fused.compiled, name)
    given, written = arrays_of(name)
    assert function(*given) is True
    for place in range(len(given)):
        for kind, wrong in WRONG.items():
            given, written = arrays_of(name)
            if kind == "with gaps" and len(given[place]) == 1:  # one number has none
                continue
            given[place] = wrong(given[place])
            before = [np.array(a) for a in given]
            assert function(*given) is False
            for one, other in zip(given, before, strict=True):
                np.testing.assert_array_equal(one, other)
    for place in written:
        given, _ = arrays_of(name)
        locked(given[place])
        assert function(*given) is False
    with pytest.raises(TypeError, match="10 arrays, got 9"):
        function(*given[:9])


@needs_compiler
def test_a_box_that_is_given_once_for_all_is_left_to_numpy(by_numpy):
    swarm = wild((), 20, 3, 4)
    swarm = swarm._replace(lower=swarm.lower[0], upper=swarm.upper[0])

    def move():
        return ps.PAO().ask(swarm, Draw([np.random.default_rng(6)], ()))

    assert_same_bits(move(), by_numpy(move))


@needs_compiler
def test_a_swarm_in_another_layout_is_left_to_numpy():
    swarm = wild((), 20, 3, 4)
    draw = [Draw([np.random.default_rng(6)], ()) for _ in range(2)]
    turned = Swarm(*(np.asfortranarray(a) if isinstance(a, np.ndarray) else a for a in swarm))
    assert not turned.position.flags.c_contiguous
    assert_same_bits(ps.PAO().ask(swarm, draw[0]), ps.PAO().ask(turned, draw[1]))
