"""Keywords of other libraries get an error that names ours; typing and introspection see the plain signatures."""

import inspect
import pickle
import subprocess
import sys

import pytest

import paoswarm as ps

BOX = [(-5.0, 5.0)] * 2


def sphere(x):
    return (x**2).sum()


def never(x):
    raise AssertionError("an unknown keyword must be noticed before any evaluation")


@pytest.mark.parametrize("function", [ps.minimize, ps.minimize_many])
@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("seed", "use rng="),
        ("random_state", "use rng="),
        ("popsize", "use n_particles="),
        ("pop_size", "use n_particles="),
        ("n_trials", "use maxfev="),
        ("maxfun", "use maxfev="),
        ("max_nfev", "use maxfev="),
        ("budget", "use maxfev="),
        ("n_gen", "use maxiter="),
        ("iters", "use maxiter="),
        ("disp", "use progress="),
        ("verbose", "use progress="),
        ("ftol", "use tol="),
        ("xtol", "use tol="),
        ("atol", "use tol="),
        ("num_workers", "use workers="),
        ("n_jobs", "use workers="),
        ("options", "maxiter=200"),
        ("strategy", "ps.classic.DE"),
        ("mutation", "ps.classic.DE"),
        ("recombination", "ps.classic.DE"),
        ("updating", "asynchronous"),
        ("maxitr", "did you mean maxiter"),
        ("zzz", "it takes fun, bounds"),
    ],
)
def test_a_keyword_of_another_library_is_explained(function, theirs, ours):
    with pytest.raises(TypeError, match=ours) as error:
        function(never, BOX, **{theirs: 1})
    assert theirs in str(error.value)
    assert function.__name__ in str(error.value)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("n_samples", "use n_effective="),
        ("nlive", "use n_particles="),
        ("nwalkers", "use n_particles="),
        ("prior_transform", r"prior=\(names, transform\)"),
        ("pool", "use workers="),
        ("x0", "use start="),
        ("dlogz", "it takes"),
        ("random_state", "use rng="),
        ("n_efective", "did you mean n_effective"),
    ],
)
def test_sample_explains_keywords_of_other_samplers(theirs, ours):
    with pytest.raises(TypeError, match=ours):
        ps.sample(never, {"a": (0, 1)}, **{theirs: 1})


def test_minimize_has_few_parameters():
    assert len(inspect.signature(ps.minimize).parameters) <= 22
    with pytest.raises(TypeError, match=r"write ps.Integer\(low, high\) in bounds"):
        ps.minimize(never, BOX, integrality=[True, False])
    with pytest.raises(TypeError, match=r"x0=\(points, values\)"):
        ps.minimize(never, BOX, x0=[[0, 0]], f0=[1.0])


def test_an_optimizer_says_that_its_loop_is_the_users():
    with pytest.raises(TypeError, match="argument of minimize only"):
        ps.Optimizer(BOX, method=ps.PAO(), maxfev=100)
    with pytest.raises(TypeError, match="Optimizer has no argument 'seed': use rng="):
        ps.Optimizer(BOX, method=ps.PAO(), seed=1)


def test_what_only_minimize_has_is_said():
    with pytest.raises(TypeError, match="it is for minimize"):
        ps.minimize_many(never, BOX, method=ps.PAO(), asynchronous=True)
    for many in (ps.minimize_many, ps.sample):
        with pytest.raises(ValueError, match="asynchronous=True is for minimize"):
            many(never, BOX, workers=ps.Workers(asynchronous=True))


@pytest.mark.parametrize("name", ["timeout", "retries", "asynchronous"])
def test_how_workers_work_is_said_in_one_object(name):
    with pytest.raises(TypeError, match=rf"write workers=ps.Workers\(8, {name}="):
        ps.minimize(never, BOX, **{name: 1})
    with pytest.raises(TypeError, match=r"write ps.Workers\(8, timeout=60\): .*'n_jobs'"):
        ps.Workers(n_jobs=8)


def test_scipys_order_of_arguments_is_recognised():
    with pytest.raises(TypeError, match="bounds twice"):
        ps.minimize(never, [0, 0], method=ps.PAO(), bounds=BOX)


def test_every_advised_name_is_an_argument_of_some_function():
    from paoswarm._checks import _THEIR_NAMES

    known = {name for function in (ps.minimize, ps.minimize_many, ps.sample) for name in signature(function)}
    assert set(_THEIR_NAMES) <= known
    theirs = {name for names in _THEIR_NAMES.values() for name in names.split()}
    assert not theirs & set(signature(ps.minimize)) - {"x0", "init"}  # these two are arguments of sample elsewhere


def signature(function):
    return inspect.signature(function).parameters


def test_the_signature_shows_no_catch_all():
    for function in (ps.minimize, ps.minimize_many, ps.sample, ps.Optimizer):
        kinds = {parameter.kind for parameter in signature(function).values()}
        assert inspect.Parameter.VAR_KEYWORD not in kinds
    assert pickle.loads(pickle.dumps(ps.minimize)) is ps.minimize


@pytest.mark.slow
def test_mypy_still_reports_an_unknown_keyword(tmp_path):
    code = tmp_path / "user.py"
    code.write_text(
        "import paoswarm as ps\n"
        "ps.minimize(sum, [(0, 1)], maxfev=1e4, rng=1)\n"
        "ps.minimize(sum, [(0, 1)], seed=1)\n"
        "ps.Optimizer([(0, 1)], seed=1)\n"
    )
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(code)]
    found = subprocess.run(command, capture_output=True, text=True)
    reported = [line for line in found.stdout.splitlines() if ": error:" in line]
    assert [line.split(":")[1] for line in reported] == ["3", "4"]
    assert all("seed" in line for line in reported)
