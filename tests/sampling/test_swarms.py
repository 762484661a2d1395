"""Posteriors with many peaks: swarms find the heaviest where climbs do not, and a message says if they may not have."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp

import paoswarm as ps
from paoswarm.sampling import search as search_module
from paoswarm.sampling.climbs import Mode
from paoswarm.sampling.search import SWARMS, _moves_cost, best_of_swarms, explore, is_rugged
from paoswarm.sampling.starts import Draws
from paoswarm.sampling.target import Target


def schwefel(x):
    """Seven peaks along every axis, the highest near the bound and far from the next highest."""
    return 0.1 * (x * np.sin(np.sqrt(np.abs(x)))).sum(axis=1)


def rastrigin(x):
    """Eleven peaks along every axis, the highest at 1.3."""
    return -5 * ((x - 1.3) ** 2 + 10 * (1 - np.cos(2 * np.pi * (x - 1.3)))).sum(axis=1)


def evidence(log_likelihood, half, d):
    """Log evidence of a sum over the parameters in a box, by quadrature along one axis."""
    axis = np.linspace(-half, half, 400_001)[:, None]
    return d * (logsumexp(log_likelihood(axis)) - math.log(len(axis)))


def drawn(log_likelihood, half, d, n, seed):
    target = Target(log_likelihood, [(-half, half)] * d)
    z = target.prior.draw(n, np.random.default_rng(seed))
    return target, z, target.height(z)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_heaviest_of_many_peaks_is_found(seed, monkeypatch):
    """One of 16,807 peaks, to ten standard errors. Without swarms the evidence is wrong by 10,000 times, silently."""
    exact = evidence(schwefel, 500, 5)
    box = [(-500, 500)] * 5
    posterior = ps.sample(schwefel, box, vectorized=True, n_effective=500, maxfev=60_000, rng=seed)
    assert abs(posterior.log_evidence - exact) < 0.1
    monkeypatch.setattr(search_module, "is_rugged", lambda _: False)
    posterior = ps.sample(schwefel, box, vectorized=True, n_effective=500, maxfev=60_000, rng=seed)
    assert posterior.log_evidence < exact - math.log(1e4)
    assert posterior.success


def test_where_swarms_do_not_agree_the_message_says_so():
    posterior = ps.sample(rastrigin, [(-5.12, 5.12)] * 8, vectorized=True, n_effective=500, maxfev=30_000, rng=1)
    assert posterior.log_evidence < evidence(rastrigin, 5.12, 8) - 5
    assert not posterior.success
    assert math.isinf(posterior.log_evidence_error)
    assert "did not agree" in posterior.message
    assert not posterior.diagnostics["search_settled"]


def test_where_the_budget_leaves_no_room_for_swarms_the_message_says_so(monkeypatch):
    monkeypatch.setattr(search_module, "send_swarms", lambda *_: pytest.fail("called"))
    posterior = ps.sample(rastrigin, [(-5.12, 5.12)] * 5, vectorized=True, n_effective=200, maxfev=8000, rng=1)
    assert math.isinf(posterior.log_evidence_error)
    assert "maxfev is too small" in posterior.message


@pytest.mark.slow
def test_where_many_peaks_share_the_mass_there_is_none_to_look_for(monkeypatch):
    """A rippled normal law. Its evidence is right to three stated errors; false alarm 0.3 %."""
    monkeypatch.setattr(search_module, "send_swarms", lambda *_: pytest.fail("called"))

    def rippled(x):
        return -0.5 * ((x / 0.3) ** 2).sum(axis=1) + 2 * np.cos(40 * x).sum(axis=1)

    posterior = ps.sample(rippled, [(-1, 1)] * 3, vectorized=True, n_effective=500, maxfev=60_000, rng=1)
    assert abs(posterior.log_evidence - evidence(rippled, 1, 3)) < 3 * posterior.log_evidence_error < 0.2


def test_where_swarms_agree_there_is_no_doubt():
    """Two dimensions, 121 peaks: each climb ends at another, and most swarms end at the highest."""
    target, z, value = drawn(rastrigin, 5.12, 2, 2000, 1)
    found = explore(target, Draws(z, value), np.empty((0, 2)), 15_000, np.random.default_rng(2))
    assert found.incomplete == ""
    np.testing.assert_allclose(target.parameters(found.modes[0].z[None])[0], [1.3, 1.3], atol=0.01)


@pytest.mark.slow
def test_a_few_peaks_need_no_swarms(monkeypatch):
    monkeypatch.setattr(search_module, "send_swarms", lambda *_: pytest.fail("called"))
    ps.sample(lambda x: -50 * (x**2).sum(axis=1), [(-1, 1)] * 3, vectorized=True, n_effective=200, rng=1)
    ps.sample(lambda x: -200 * ((x**2 - 0.5) ** 2).sum(axis=1), [(-1, 1)] * 3, vectorized=True, n_effective=200, rng=1)


@pytest.mark.parametrize(("n_peaks", "rugged"), [(1, False), (8, False), (300, True)])
def test_ground_is_rugged_where_most_climbs_end_alone(n_peaks, rugged):
    """22 climbs to equal peaks. The next peak is unseen with probability 5 % if there are 8, 93 % if there are 300."""
    for seed in range(20):
        ends = np.bincount(np.random.default_rng(seed).integers(n_peaks, size=22))
        places = [Mode(np.zeros(1), np.eye(1), 0.0, True, True, n) for n in ends if n]
        assert is_rugged(places) == rugged
        assert not is_rugged([mode._replace(is_peak=False) for mode in places])  # a ridge
    assert not is_rugged([Mode(np.zeros(1), np.eye(1), 0.0, True, True, 1)] * 5)  # too few to tell


def test_the_swarms_are_independent():
    """The start of one swarm changes where it ends, and where the last swarm ends, but no other."""
    target, z, _ = drawn(schwefel, 500, 4, 800, 3)
    z[1], z[SWARMS + 1] = z.min(axis=0), z.max(axis=0)  # the box stays what it is
    best = best_of_swarms(target, Draws(z, target.height(z)), 10_000, np.random.default_rng(4))
    z[::SWARMS] *= 0.9
    other = best_of_swarms(target, Draws(z, target.height(z)), 10_000, np.random.default_rng(4))
    assert (best[:SWARMS] != other[:SWARMS]).any(axis=1).tolist() == [True] + [False] * (SWARMS - 1)


@pytest.mark.parametrize("n_max", [0, 199, 200, 4321, 10**9])
def test_swarms_keep_to_their_budget(n_max):
    target, z, value = drawn(schwefel, 500, 3, 500, 6)
    before = target.n_evaluations
    best = best_of_swarms(target, Draws(z, value), n_max, np.random.default_rng(7))
    assert target.n_evaluations - before == _moves_cost(min(50, n_max // _moves_cost(1)))
    heights = target.height(best)
    assert heights[-1] >= heights[:-1].max()  # the last begins with the best of the others
    assert heights.max() >= value.max()
    if n_max == 0:
        assert heights.max() == value.max()


def test_swarms_fill_up_where_few_draws_have_a_likelihood():
    target, z, value = drawn(schwefel, 500, 3, 500, 8)
    value[2 * SWARMS :] = -np.inf
    before = target.n_evaluations
    best = best_of_swarms(target, Draws(z, value), 4000, np.random.default_rng(9))
    assert target.n_evaluations - before <= 4000
    assert (target.height(best) > value.max()).any()


def tone(seed):
    """A tone at 40 random times: frequency, cosine and sine amplitudes; thousands of peaks in frequency."""
    rng = np.random.default_rng(seed)
    time = rng.uniform(0, 100, 40)
    y = np.cos(2 * np.pi * rng.uniform(2, 8) * time + 1) + 0.3 * rng.standard_normal(40)

    def log_likelihood(x):
        phase = 2 * np.pi * x[:, :1] * time
        curve = x[:, 1:2] * np.cos(phase) + x[:, 2:] * np.sin(phase)
        return -0.5 * ((y - curve) ** 2).sum(axis=1) / 0.3**2

    # Given the frequency, the amplitudes are normal and far from the bounds, so their integral is known.
    log_sum = -np.inf
    grid = np.linspace(1e-3, 10, 400_000)
    for part in np.array_split(grid, 40):
        phase = 2 * np.pi * part[:, None] * time
        design = np.stack([np.cos(phase), np.sin(phase)], axis=1)
        gram = design @ np.swapaxes(design, 1, 2)
        fitted = np.linalg.solve(gram, design @ y[:, None])[..., 0]
        square = y @ y - np.einsum("ni,nij,nj->n", fitted, gram, fitted)
        log_volume = math.log(2 * math.pi * 0.09) - 0.5 * np.linalg.slogdet(gram)[1] - math.log(100)
        log_sum = np.logaddexp(log_sum, logsumexp(-0.5 * square / 0.09 + log_volume))
    return log_likelihood, [(1e-3, 10), (-5, 5), (-5, 5)], log_sum - math.log(len(grid))


@pytest.mark.slow
def test_no_wrong_frequency_is_called_a_success():
    """Twelve tones. Standard errors are about 0.02. No wrong result may be a success."""
    n_right = 0
    for seed in range(12):
        log_likelihood, box, exact = tone(seed)
        posterior = ps.sample(log_likelihood, box, vectorized=True, n_effective=500, rng=seed)
        is_right = abs(posterior.log_evidence - exact) < 0.2
        assert is_right or not posterior.success
        n_right += is_right
    assert n_right >= 8
