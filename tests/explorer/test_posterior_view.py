"""The posterior on the page is the one that `sample` returned; the file is not touched."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from waiting import until

import paoswarm as ps
from paoswarm.explorer.repeated import describe_posterior, repeat
from paoswarm.explorer.run_room import RunRoom


def log_likelihood(x):
    return -0.5 * float(((x - 1) ** 2).sum() / 0.09)


@pytest.fixture(scope="module")
def sampled(tmp_path_factory):
    path = tmp_path_factory.mktemp("sample") / "sample.paoswarm"
    prior = {"<i>level</i>": stats.norm(0, 2), "slope": stats.uniform(-3, 8)}
    return path, ps.sample(log_likelihood, prior, n_effective=200, rng=1, store=ps.Store(path, "never"))


def test_it_is_the_posterior_of_the_run(sampled):
    path, posterior = sampled
    before = path.read_bytes()
    room = RunRoom(path)
    room.show({})
    until(lambda: not room.posterior({})["busy"])
    answer = room.posterior({})
    assert answer["state"] == "ready"
    assert_array_equal(answer["mean"], posterior.mean())
    assert_array_equal(answer["sd"], posterior.std())
    assert answer["log_evidence"] == posterior.log_evidence
    assert answer["log_evidence_error"] == posterior.log_evidence_error
    assert answer["effective_size"] == posterior.effective_size
    assert answer["names"] == posterior.names == ["<i>level</i>", "slope"]
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == [path.name]
    assert RunRoom(path).show({})["names"] == posterior.names
    assert RunRoom(path).show({})["state"]["best"] == max(ps.Store(path).read()[1])


def test_logarithmic_parameters_have_histograms_of_their_logarithms(tmp_path):
    path = tmp_path / "run"
    prior = {"rate": ps.Real(1e-4, 1e4, log=True), "level": (0.5, 2.0)}
    posterior = ps.sample(wide, prior, n_effective=200, rng=1, store=ps.Store(path, "never"))
    answer = describe_posterior(posterior, RunRoom(path)._unknowns().is_log)
    assert answer["is_log"] == [True, False]
    rate, level = answer["marginals"]
    ratios = rate["edges"][1:] / rate["edges"][:-1]
    assert_allclose(ratios, ratios[0])
    assert_allclose((rate["density"] * np.log10(ratios)).sum(), 1)
    assert_allclose((level["density"] * np.diff(level["edges"])).sum(), 1)
    middle = np.log10(rate["edges"][1:] * rate["edges"][:-1]) / 2
    assert_allclose((rate["density"] * np.log10(ratios)) @ middle, 1.0, atol=0.15)  # error of 200 draws: 0.04
    assert_allclose(answer["pairs"][0]["share"].sum(), 1, atol=0.01)


def wide(x):
    return -0.5 * ((np.log10(x[0]) - 1) / 0.5) ** 2


def test_histograms_hold_the_weights(sampled):
    answer = describe_posterior(sampled[1], np.zeros(2, dtype=bool))
    for marginal, column in zip(answer["marginals"], sampled[1].weighted.draws.T, strict=True):
        inside = (column >= marginal["edges"][0]) & (column <= marginal["edges"][-1])
        assert sampled[1].weighted.weights[inside].sum() > 0.99
        assert_allclose((marginal["density"] * np.diff(marginal["edges"])).sum(), 1)
    (pair,) = answer["pairs"]
    assert_allclose(pair["share"].sum(), 1, atol=0.01)
    middle = [(edges[1:] + edges[:-1]) / 2 for edges in pair["edges"]]
    assert_allclose(pair["share"].sum(axis=0) @ middle[0], sampled[1].mean()[0], atol=0.1)
    assert_allclose(pair["share"].sum(axis=1) @ middle[1], sampled[1].mean()[1], atol=0.1)


def test_a_run_that_goes_on_has_the_posterior_of_its_draws_so_far(sampled, tmp_path):
    lines = sampled[0].read_bytes().splitlines(keepends=True)
    path = tmp_path / "part.paoswarm"
    path.write_bytes(b"".join(lines[:-80]))
    posterior = repeat(path)
    assert posterior.method == "interrupted"
    assert_allclose(posterior.mean(), sampled[1].mean(), atol=0.1)


def test_a_run_that_is_too_young_is_a_sentence(sampled, tmp_path):
    lines = sampled[0].read_bytes().splitlines(keepends=True)
    path = tmp_path / "young.paoswarm"
    path.write_bytes(b"".join(lines[:5]))
    with pytest.raises(KeyboardInterrupt, match=r"^Interrupted after 3 evaluations, too early for a posterior\.$"):
        repeat(path)


def test_a_prior_that_is_not_stored_is_a_sentence(tmp_path):
    prior = (["a"], lambda u: 4 * u - 2)
    path = tmp_path / "own.paoswarm"
    ps.sample(lambda x: -float(x @ x), prior, n_effective=100, rng=1, store=ps.Store(path, "never"))
    with pytest.raises(TypeError, match="cannot be rebuilt from the file"):
        repeat(path)
