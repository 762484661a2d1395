"""`sample` with JAX: the same densities, weights and laws as with NumPy, known posteriors, and clear errors."""

import math

import numpy as np
import pytest
from jax_alone import need_jax
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import paoswarm as ps
from paoswarm.engines import counter
from paoswarm.sampling import assemble_posterior
from paoswarm.sampling.adapt import PriorDensity
from paoswarm.sampling.densities import Blend, Mixture, Warped, Wrapped
from paoswarm.sampling.moves import RHO, ChainStates, correlated, move
from paoswarm.sampling.read_prior import as_given, read_prior
from paoswarm.sampling.sample import make_target, read_traced
from paoswarm.sampling.target import Bridge, Target
from paoswarm.sampling.tempered import Stage

jax = need_jax()
jnp = jax.numpy

from paoswarm.sampling import jax_target  # noqa: E402
from paoswarm.sampling.jax_draws import (  # noqa: E402
    CounterRandom,
    DeviceChains,
    numbers,
)

D = 3
FALSE_ALARM = 4.5  # standard errors: a right value is further away with probability 7e-6
PRIORS = {
    "box": [(-4, 4), (0, 1), (2, 30)],
    "circle": [(-4, 4), ps.Periodic(0, 360), (2, 30)],
    "laws": [stats.norm(1, 2), stats.lognorm(0.5, scale=2), ps.Real(0.1, 10, log=True)],
    "laws and a circle": [stats.halfnorm(0, 2), ps.Periodic(-1, 1), stats.expon(0, 2)],
    "correlated": stats.multivariate_normal([1, 2, 3], np.eye(3) + 0.5),
    "transform": (3, lambda u: 2 * u - 1),
    "no formula": [stats.gamma(2), stats.beta(2, 3), stats.t(5)],
}


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch):
    """Small productions stay on the host, because compiling takes longer; here they go to the device."""
    monkeypatch.setattr(jax_target, "_DRAWS", 2000)
    monkeypatch.setattr(jax_target, "_CHAINS", 1000)


def some_slow(values, *quick):
    """All values as parameters; compilation takes a second for each, so most are slow tests."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]


def bump(x):
    """A smooth log likelihood for NumPy and JAX."""
    return -0.5 * (((x - 0.3) / 0.5) ** 2).sum()


def a_mixture(rng, freedom=math.inf, k=3):
    factor = np.tril(0.1 * rng.standard_normal((k, D, D))) + 0.3 * np.eye(D)
    return Mixture(np.array([0.5, 0.3, 0.2]), rng.uniform(-0.5, 0.5, (k, D)), factor, freedom)


def a_target(prior, fun=bump, **options):
    law = read_prior(prior)
    given = as_given(fun, prior)
    traced = read_traced(options.pop("engine", "jax"), given, law.dim, vectorized=False, workers=ps.Workers(),
                         store=None)  # fmt: skip
    return make_target(traced, law, options.get("maxfev"), traced, None)


def a_proposal(target, rng):
    """All kinds of parts at once."""
    parts = [a_mixture(rng), a_mixture(rng, 4.0)]
    if target.walled.any():
        parts.append(Warped(a_mixture(rng), target.walled))
    if target.circle is not None:
        parts = [Wrapped(part, target.circle) for part in parts]
    share = np.array([0.6 / len(parts)] * len(parts) + [0.4])
    return Blend(share, (Blend(np.array([0.7, 0.3]), tuple(parts[:2])), *parts[2:], parts[0], PriorDensity(target))
                 [: len(share)] if len(parts) > 2 else (*parts, PriorDensity(target)))  # fmt: skip


@pytest.mark.parametrize("name", some_slow(PRIORS, "circle", "no formula"))
def test_weights_and_priors_are_those_of_numpy(name):
    rng = np.random.default_rng(5)
    target = a_target(PRIORS[name])
    proposal = a_proposal(target, rng)
    made = target.draw(proposal, 3000, rng)
    host = Target(lambda x: np.array([bump(row) for row in x]), PRIORS[name])
    assert_allclose(made.log_prior, host.log_prior(made.z), rtol=1e-12)
    assert_allclose(made.log_proposal, proposal.log_density(made.z), rtol=1e-11, atol=1e-11)
    likelihood = host.log_likelihood(made.z)
    assert_allclose(made.log_likelihood, likelihood, rtol=1e-10, atol=1e-10)
    weights = made.log_prior + made.log_likelihood - made.log_proposal
    expected = host.log_prior(made.z) + likelihood - proposal.log_density(made.z)
    finite = np.isfinite(expected)
    assert finite.sum() > 1000
    assert_array_equal(np.isfinite(weights), finite)
    assert_allclose(weights[finite], expected[finite], rtol=0, atol=1e-10)
    assert target.n_evaluations == np.isfinite(made.log_prior).sum()


def test_draws_depend_on_their_numbers_alone(monkeypatch):
    target = a_target(PRIORS["correlated"])
    proposal = a_proposal(target, np.random.default_rng(1))
    whole = target.draw(proposal, 5000, np.random.default_rng(2))
    monkeypatch.setattr(jax_target, "_LARGEST", 1024)
    longer = target.draw(proposal, 7000, np.random.default_rng(2))
    assert_allclose(longer.z[:5000], whole.z, rtol=1e-13, atol=1e-15)
    assert_allclose(longer.log_proposal[:5000], whole.log_proposal, rtol=1e-12)
    assert len(np.unique(whole.z[:, 0])) == 5000


@pytest.mark.parametrize("freedom", some_slow([math.inf, 4.0, 5.0], 4.0))
def test_draws_have_the_law_of_the_proposal(freedom):
    """Kolmogorov-Smirnov tests; false alarms in 0.1 % of seeds each."""
    target = a_target(PRIORS["correlated"])
    mean, scale = np.array([1.0, -2.0, 0.5]), np.array([0.5, 2.0, 1.0])
    factor = np.diag(scale)
    factor[2, 0] = 0.4
    mixture = Mixture(np.ones(1), mean[None], factor[None], freedom)
    z = target.draw(Blend(np.ones(1), (mixture,)), 20_000, np.random.default_rng(3)).z
    law = stats.norm() if math.isinf(freedom) else stats.t(freedom)
    white = np.linalg.solve(factor, (z - mean).T)
    for row in white:
        assert stats.kstest(row, law.cdf).pvalue > 1e-3
    for i, j in ((0, 1), (0, 2), (1, 2)):  # signs are independent, tails of Student's t are not
        assert abs(np.mean(np.sign(white[i] * white[j]))) < 3.3 / math.sqrt(20_000)
    assert stats.kstest(white[0] + 0.05, law.cdf).pvalue < 1e-3  # a shift of a twentieth is noticed


def test_every_stretch_of_draws_holds_each_component_by_its_share():
    target = a_target(PRIORS["correlated"])
    share = np.array([0.62, 0.3, 0.07, 0.01])
    parts = tuple(Mixture(np.ones(1), np.full((1, D), 100.0 * c), np.eye(D)[None]) for c in range(4))
    z = target.draw(Blend(share, parts), 6000, np.random.default_rng(3)).z
    which = np.rint(z[:, 0] / 100).astype(int)
    for first, last in ((0, 1000), (1000, 1100), (2345, 5000), (0, 6000)):
        assert_allclose(np.bincount(which[first:last], minlength=4), (last - first) * share, rtol=0, atol=4)


@pytest.mark.slow
def test_the_evidence_is_unbiased(monkeypatch):
    """Mean of 200 evidences, 4.5 standard errors; a proposal with other shares than it says is noticed."""
    target = a_target(PRIORS["correlated"])
    mean = np.array([[-0.5, -1.0, -1.5], [0.0, -1.3, -2.0]])
    mixture = Mixture(np.array([0.6, 0.4]), mean, np.stack([0.6 * np.eye(D), 0.9 * np.eye(D)]))
    parts = (mixture, mixture.widened(1.3, 4.0), PriorDensity(target))
    proposal, wrong = (Blend(np.array(share), parts) for share in ((0.6, 0.3, 0.1), (0.55, 0.35, 0.1)))
    compiled, known = jax_target.JaxTarget._compiled, []
    monkeypatch.setattr(
        jax_target.JaxTarget,
        "_compiled",
        lambda *args: known[0] if known else known.append(compiled(*args)) or known[0],
    )
    made = [target.draw(proposal, 4000, np.random.default_rng(seed)) for seed in range(200)]
    law = stats.multivariate_normal(np.zeros(D), np.eye(D) + 0.5 + 0.25 * np.eye(D))
    exact = law.logpdf(np.array([1, 2, 3]) - 0.3) + 1.5 * math.log(2 * math.pi * 0.25)

    def off(density):
        each = [np.exp(m.log_prior + m.log_likelihood - density(m) - exact).mean() for m in made]
        return abs(np.mean(each) - 1) / (np.std(each) / math.sqrt(len(each)))

    assert off(lambda m: m.log_proposal) < FALSE_ALARM
    assert off(lambda m: wrong.log_density(m.z)) > FALSE_ALARM


def banana(x):
    return -0.5 * ((x[0] / 2) ** 2 + (x[1] + 0.25 * (x[0] ** 2 - 4)) ** 2)


def two_modes(x):
    logs = [jnp.log(share) - 0.5 * jnp.sum(((x - at) / sd) ** 2) - 2 * jnp.log(sd) for at, sd, share in
            ((-3.0, 0.2, 0.8), (4.0, 0.5, 0.2))]  # fmt: skip
    return jnp.logaddexp(*logs) - jnp.log(2 * jnp.pi)


def cut_off(x):
    """A normal peak outside the box: the posterior leans against a bound."""
    return -0.5 * ((x[0] - 1.3) / 0.2) ** 2 - 0.5 * (x[1] / 0.3) ** 2


def of_cut_off():
    inside = stats.norm(1.3, 0.2).cdf(1) - stats.norm(1.3, 0.2).cdf(-1)
    both = inside * (1 - 2 * stats.norm(0, 0.3).sf(1))
    return math.log(2 * math.pi * 0.2 * 0.3 * both / 4)


KNOWN = {
    "normal": (lambda x: -0.5 * jnp.sum(x**2), [stats.norm(0, 2)] * 2, math.log(1 / 5)),
    "banana": (banana, [(-30, 30)] * 2, math.log(4 * math.pi) - 2 * math.log(60)),
    "two modes": (two_modes, [(-10, 10)] * 2, -2 * math.log(20)),
    "cut off": (cut_off, [(-1, 1)] * 2, of_cut_off()),
}


@pytest.mark.parametrize("name", some_slow(KNOWN, "two modes"))
def test_known_evidences(name):
    fun, prior, exact = KNOWN[name]
    posterior = ps.sample(fun, prior, engine="jax", n_effective=20_000, rng=4)
    error = posterior.log_evidence_error
    assert posterior.success, posterior.message
    assert error < 0.01
    assert abs(posterior.log_evidence - exact) < FALSE_ALARM * error
    assert abs(posterior.log_evidence - (exact + 0.1)) > FALSE_ALARM * error  # a tenth more would be noticed
    assert posterior.effective_size > 15_000
    if name == "two modes":
        share = posterior.weighted.weights @ (posterior.weighted.draws[:, 0] < 0)
        assert abs(share - 0.8) < FALSE_ALARM * math.sqrt(0.16 / 15_000)


@pytest.mark.slow
def test_numpy_and_jax_agree_and_seeds_repeat():
    fun, prior, _ = KNOWN["banana"]
    plain = ps.sample(fun, prior, n_effective=500, maxfev=20_000, rng=3)
    first, again = (ps.sample(fun, prior, n_effective=2000, maxfev=20_000, rng=3, engine="jax") for _ in range(2))
    assert_array_equal(first.draws, again.draws)
    assert first.log_evidence == again.log_evidence
    assert first.n_evaluations <= 20_000
    assert len(first.weighted.draws) > 2000
    apart = math.hypot(first.log_evidence_error, plain.log_evidence_error)
    assert abs(first.log_evidence - plain.log_evidence) < FALSE_ALARM * apart
    spread = plain.std() * math.sqrt(1 / first.effective_size + 1 / plain.effective_size)
    assert (np.abs(first.mean() - plain.mean()) < FALSE_ALARM * spread).all()


def test_names_fixed_values_and_failures():
    def named(x):
        assert set(x.keys()) == {"a", "b", "known"}
        return jnp.where(x["b"] > 0.9, jnp.nan, -0.5 * ((x["a"] - x["known"]) / 0.1) ** 2 + 0.0 * jnp.sum(2 * x))

    posterior = ps.sample(named, {"a": (-1, 1), "known": 0.25, "b": (-1, 1)}, engine="jax", n_effective=2000, rng=1)
    assert abs(posterior.mean()[0] - 0.25) < FALSE_ALARM * 0.1 / math.sqrt(1900)
    assert posterior.n_failed > 0
    assert posterior.weighted.draws[:, 1].max() <= 0.9
    exact = math.log(0.1 * math.sqrt(2 * math.pi) / 2 * 0.95)
    assert abs(posterior.log_evidence - exact) < FALSE_ALARM * posterior.log_evidence_error
    for fun in (lambda x: jnp.sum(x) + 9 * x[1], lambda x: x["a"] + 10 * x["b"], lambda x: x @ jnp.array([1, 10])):
        unnamed = a_target({"a": (-1, 1), "b": (-1, 1)}, fun)
        assert_allclose(unnamed.log_likelihood(np.array([[0.5, -0.5]])), [0.5 - 5], rtol=1e-6)
    listed = a_target([(-1, 1), 7.0, (-1, 1)], lambda x: x[0] + 10 * x[1] + 100 * x[2])
    assert_allclose(listed.log_likelihood(np.array([[0.5, -0.5]])), [0.5 + 70 - 50], rtol=1e-12)


def test_numbers_of_numpy_in_the_function_and_precisions_of_earlier_calls():
    """JAX mixes up precisions of constants that it has traced in another precision."""
    data = np.linspace(0, 1, 7)
    table = np.ones((7, 2))

    def fun(x):
        return -0.5 * jnp.sum((data - table @ x) ** 2)

    jax.jit(fun)(jnp.ones(2))
    double, single = (a_target([(-1, 1)] * 2, fun, engine=engine) for engine in ("jax", ps.engines.Jax("single")))
    z = np.random.default_rng(1).uniform(-1, 1, (50, 2))
    expected = [-0.5 * ((data - table @ row) ** 2).sum() for row in z]
    assert_allclose(double.log_likelihood(z), expected, rtol=1e-14)
    assert_allclose(single.log_likelihood(z), expected, rtol=1e-5)
    assert np.abs(single.log_likelihood(z) - expected).max() > 1e-9
    assert not jax.config.jax_enable_x64
    assert isinstance(a_target([(-1, 1)] * 2, jax.jit(fun), engine="auto"), jax_target.JaxTarget)
    jitted = jax.jit(fun)
    for inner in (
        jitted,
        lambda x: jitted(x) + 0 * data[0],
        lambda x: jax.lax.cond(x[0] < 2, jitted, lambda x: x[0], x),
        lambda x: jax.lax.fori_loop(0, 3, lambda i, total: total + jitted(x) / 3, 0 * x[0]),
    ):
        for engine, rtol in (("jax", 1e-14), (ps.engines.Jax("single"), 1e-5), ("jax", 1e-14)):
            assert_allclose(a_target([(-1, 1)] * 2, inner, engine=engine).log_likelihood(z), expected, rtol=rtol)
    for one in (fun, jitted):
        assert read_traced("auto", one, 2, vectorized=True, workers=ps.Workers(2), store=None) is None


def test_a_transform_written_for_jax_has_double_precision():
    target = a_target((2, lambda u: jnp.exp(3 * u)), lambda x: -jnp.sum(x))
    z = np.random.default_rng(1).standard_normal((100, 2))
    assert_allclose(target.parameters(z), np.exp(3 * stats.norm.cdf(z)), rtol=1e-14)
    assert_allclose(target.log_likelihood(z), -np.exp(3 * stats.norm.cdf(z)).sum(axis=1), rtol=1e-13)


def test_single_precision_that_is_too_coarse_is_noticed():
    def fun(x):
        return 1e7 - 0.5 * jnp.sum((x / 0.1) ** 2)

    with pytest.warns(RuntimeWarning, match="Single precision is too coarse"):
        posterior = ps.sample(fun, [(-1, 1)] * 2, engine=ps.engines.Jax("single"), n_effective=500, rng=1)
    assert math.isinf(posterior.log_evidence_error)
    assert "use engine='jax', which has double precision" in posterior.message


class Reference:
    """The random numbers of a move, by NumPy: slots of Philox words, in the order of the calls."""

    def __init__(self, key, turn, n):
        self._low, self._number, self._slot = key[0], np.arange(n, dtype=np.uint32)[:, None], 0
        self._high = counter.hashed((int(key[1]) + int(counter.hashed(turn))) % 2**32)

    def _uniform(self, count):
        slots = np.arange(self._slot, self._slot + count, dtype=np.uint32)
        self._slot += count
        mixed = counter.hashed(((int(self._high) + counter.hashed(slots).astype(np.uint64)) % 2**32).astype(np.uint32))
        first, second = counter.philox(self._number, self._low, mixed)
        return ((first >> 6) * 2.0**26 + (second >> 6) + 0.5) * 2.0**-52

    def random(self, shape):
        return self._uniform(1).reshape(shape)

    def standard_normal(self, shape):
        return np.stack([stats.norm.ppf(self._uniform(D)) for _ in range(shape[0] if len(shape) > 2 else 1)]).reshape(
            shape
        )

    def gamma(self, a, size):
        pairs, odd = divmod(round(2 * a), 2)
        u = self._uniform(pairs + odd)
        self._slot += pairs  # a slot for each degree of freedom is kept free
        return (-np.log(u[:, :pairs]).sum(axis=1) + (0.5 * stats.norm.ppf(u[:, pairs]) ** 2 if odd else 0)).reshape(
            size
        )

    def choice(self, k, size, p):
        return np.searchsorted(np.cumsum(p), self.random(size), side="right")


def test_random_numbers_of_moves_are_those_of_the_reference():
    key, n, p = np.array([123, 4_000_000_000], dtype=np.uint32), 500, np.array([0.2, 0.5, 0.3])

    def calls(source):
        return (
            source.standard_normal((2, n, D)),
            source.random((n, 1)),
            source.gamma(5.5, size=n),
            source.standard_normal((n, D)),
            source.choice(3, size=n, p=p),
        )

    with jax.enable_x64(True):
        high = jnp.asarray([key[0], counter.hashed((int(key[1]) + int(counter.hashed(7))) % 2**32)])
        found = jax.jit(lambda key: calls(CounterRandom(key, numbers(0, n))))(high)
        for ours, expected in zip(found, calls(Reference(key, 7, n)), strict=True):
            assert_allclose(np.asarray(ours), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["correlated", "circle"])
def test_a_move_is_that_of_numpy(name):
    """With the same random numbers the same proposals, probabilities and states."""
    rng = np.random.default_rng(7)
    target = a_target(PRIORS[name])
    proposal = a_proposal(target, rng)
    z = proposal.sample(1500, rng)
    z = z[np.isfinite(target.log_prior(z))]
    bridge = Bridge(target, proposal)
    state = ChainStates(z, np.zeros_like(z), bridge.log_prior(z), bridge.log_likelihood(z))
    stage = Stage(0.7, (a_mixture(rng, 8.0),), np.full(6, 1 / 6))
    which, jump = rng.integers(6, size=len(z)), rng.choice([0.1, 1.0], size=len(z))
    before = target.n_evaluations
    chains = target.bridged_chains(proposal, state, stage, np.random.default_rng(9))
    new, tried = chains.move(which, jump)
    n_evaluated = target.n_evaluations - before

    source = Reference(np.random.default_rng(9).integers(2**32, size=2, dtype=np.uint32), 1, len(z))
    spring = correlated(RHO).take(which)
    expected, record = move(state, bridge, 0.7, stage.references[0], spring, source, jump=jump, circle=target.circle)
    assert_allclose(tried.proposal.z, record.proposal.z, rtol=1e-9, atol=1e-10)
    assert_allclose(tried.proposal.log_likelihood, record.proposal.log_likelihood, rtol=1e-8, atol=1e-8)
    assert_allclose(tried.probability, record.probability, rtol=1e-7, atol=1e-9)
    assert_array_equal(tried.accepted, record.accepted)
    assert_allclose(new.z, expected.z, rtol=1e-9, atol=1e-10)
    assert 0.02 < record.accepted.mean() < 0.98
    assert n_evaluated >= np.isfinite(record.proposal.log_likelihood).sum()
    again, _ = chains.move(which, jump)  # velocities stay on the device
    assert not np.array_equal(again.z, new.z)


@pytest.mark.slow
def test_evidence_by_moves(monkeypatch):
    monkeypatch.setattr(assemble_posterior, "_should_move", lambda *args: True)
    made = []
    chains = jax_target.JaxTarget.bridged_chains
    monkeypatch.setattr(
        jax_target.JaxTarget, "bridged_chains", lambda *args: made.append(chains(*args)) or made[-1]
    )  # fmt: skip
    fun, prior, exact = KNOWN["normal"]
    posterior = ps.sample(fun, prior, engine="jax", n_effective=8000, maxfev=200_000, rng=4)
    assert posterior.method == "tempered"
    assert any(isinstance(one, DeviceChains) for one in made)
    assert abs(posterior.log_evidence - exact) < FALSE_ALARM * posterior.log_evidence_error
    assert posterior.log_evidence_error < 0.02
    variance = 1 / (1 + 1 / 4)
    assert_allclose(posterior.std() ** 2, variance, rtol=FALSE_ALARM * math.sqrt(2 / posterior.effective_size))
    assert (np.abs(posterior.mean()) < FALSE_ALARM * math.sqrt(variance / posterior.effective_size)).all()


@pytest.mark.slow
def test_an_interrupt_leaves_what_was_drawn(monkeypatch):
    checked = jax_target.JaxTarget._checked
    monkeypatch.setattr(jax_target, "_LARGEST", 1024)

    def interrupted(self, made, first, last):
        if first >= 4096:
            raise KeyboardInterrupt
        return checked(self, made, first, last)

    monkeypatch.setattr(jax_target.JaxTarget, "_checked", interrupted)
    fun, prior, exact = KNOWN["normal"]
    posterior = ps.sample(fun, prior, engine="jax", n_effective=20_000, rng=4)
    assert posterior.method == "interrupted"
    assert "Interrupted: the result has" in posterior.message
    assert len(posterior.weighted.draws) == 4096
    assert abs(posterior.log_evidence - exact) < FALSE_ALARM * posterior.log_evidence_error


@pytest.mark.parametrize(
    ("fun", "options", "message"),
    [
        (lambda x: math.exp(x[0]), {}, "JAX cannot trace .* use engine='numpy'"),
        (lambda x: 0.0 if x[0] > 0 else -1.0, {}, "JAX cannot trace .* use engine='numpy'"),
        (lambda x: -(x**2), {}, r"must take one point x \(2,\) and return one number.*shape \(2,\)"),
        (lambda x: jnp.sum(x) * 1j, {}, "must return a real number"),
        (bump, {"vectorized": True}, "does not have vectorized with engine='jax'.*engine='numpy' has it"),
        (bump, {"workers": 2}, "does not have workers"),
        (bump, {"workers": ps.Workers(timeout=3.0)}, "does not have workers"),
        (bump, {"store": "run.paoswarm"}, "does not have store"),
        (bump, {"engine": "numba"}, "sample has engine='numpy' and engine='jax'"),
        (bump, {"engine": "jx"}, "unknown engine 'jx'"),
        (lambda x: jnp.inf - 0 * x[0], {}, "log likelihoods must be at most 1e"),
        (lambda x: jnp.nan * x[0], {}, "the likelihood is zero or failed at all"),
    ],
)
def test_what_is_not_supported_gets_a_clear_error(fun, options, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ps.sample(fun, [(-1, 1)] * 2, **{"engine": "jax", "rng": 1, "n_effective": 200, "n_particles": 200, **options})
