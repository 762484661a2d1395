"""A store never returns yesterday's answer: values of another function are refused."""

import re
import warnings

import numpy as np
import pytest
from scipy import stats
from test_fingerprint import CAPTURES, closure, module

import paoswarm as ps

BOUNDS = [(-5, 5)] * 2
RUN = {"method": ps.PAO(), "n_particles": 10, "maxiter": 3, "rng": 1}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "run.paoswarm"


def quick(file):
    return file if isinstance(file, ps.Store) else ps.Store(file, fsync="never")


class Counted:
    """Counts its calls in an attribute of its own."""

    def __init__(self, fun):
        self.fun, self.calls = fun, 0

    def __call__(self, x):
        self.calls += 1
        return self.fun(x)


def run(fun, file, **options):
    """The run of a caller that wants to hear no warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return ps.minimize(fun, BOUNDS, store=quick(file), **RUN | options)


MADE = {
    "closure": closure,
    "global": lambda c: module("def fun(x): return float(((x - C)**2).sum()) + C", C=c).fun,
    "code": lambda c: module(f"def fun(x): return float(((x - {c})**2).sum()) + {c}").fun,
    "helper": lambda c: module(f"def f(x): return float(((x - {c})**2).sum()) + {c}\ndef fun(x): return f(x)").fun,
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("maxiter", [3, 5])
def test_a_run_with_changed_data_is_refused_and_nothing_is_changed(file, name, maxiter):
    make = MADE[name]
    first = run(make(1.0), file)
    written = file.read_bytes()
    with pytest.raises(ps.errors.OtherRun, match="values of another function: evaluation") as error:
        run(make(2.0), file, maxiter=maxiter)
    number, was, now = re.search(
        r"evaluation (\d+) at .* was (.*) there, .* returns (.*) \(changed", str(error.value)
    ).groups()
    x, f = ps.Store(file).read()
    assert (float(was), float(now)) == (f[int(number)], make(2.0)(x[int(number)]))
    assert file.read_bytes() == written
    assert run(make(1.0), file).fun == first.fun
    trusting = run(make(2.0), ps.Store(file, trust=True))
    assert trusting.fun == first.fun


@pytest.mark.parametrize("sign", [1, -1])
def test_a_change_that_does_not_show_at_all_points_is_noticed(file, sign):
    """A penalty counts for bad points only. The worst point has one or has none."""

    def made(weight):
        return lambda x: 1e10 if x[0] > 3 else float((x**2).sum() + weight * max(0.0, sign * x[1]) ** 2)

    run(made(0.0), file, n_particles=20)
    if sign > 0:
        with pytest.warns(RuntimeWarning, match=r"has changed .*: weight in .* gave the recorded values again"):
            ps.minimize(made(1.0), BOUNDS, store=quick(file), **RUN | {"n_particles": 20})
    else:
        with pytest.raises(ps.errors.OtherRun, match="another function"):
            run(made(1.0), file, n_particles=20)


def test_an_array_in_every_place_is_noticed(file):
    """The same function with other data: through attributes, bound objects and arguments of a partial."""
    for name in ("array in a closure", "array as a global", "array as an attribute", "array in a partial"):
        make, one, other = CAPTURES[name]
        file.unlink(missing_ok=True)

        def value(c, make=make, is_partial=name == "array in a partial"):
            made = make(c)
            return lambda x: float(np.sum(made.args[0] if is_partial else made(x[:1] * np.ones(6))))

        run(value(one), file)
        with pytest.raises(ps.errors.OtherRun, match="another function"):
            run(value(other), file)


def test_a_changed_likelihood_is_refused(file):
    def posterior(centre):
        def log_likelihood(x):
            return float(-((x[0] - centre) ** 2))

        return ps.sample(log_likelihood, [stats.norm(0, 1)], n_effective=100, n_particles=100, rng=1, store=quick(file))

    first = posterior(0.0)
    again = posterior(0.0)
    assert again.log_evidence == first.log_evidence
    assert again.message.endswith(f"All {first.n_evaluations} evaluations came from the store.")
    with pytest.raises(ps.errors.OtherRun, match="another function"):
        posterior(1.0)


def test_a_finished_run_is_repeated_without_a_call_and_a_resumed_one_with_one_more(file):
    fun = Counted(closure(1.0))
    run(fun, file)
    assert fun.calls == 40
    again = run(fun, file)
    assert fun.calls == 40
    assert again.message.endswith("All 40 evaluations came from the store.")
    longer = run(fun, file, maxiter=5)
    assert fun.calls == 60 + 1
    assert longer.message.endswith("40 of 60 evaluations came from the store.")
    assert len(ps.Store(file).read()[1]) == 60
    run(Counted(closure(1.0)), file, maxiter=5)  # as in a new process


def test_a_change_of_what_no_fingerprint_sees_is_noticed_on_resuming(file, tmp_path):
    data = tmp_path / "data.txt"

    def fun(x):
        return float(((x - float(data.read_text())) ** 2).sum())

    data.write_text("1.0")
    run(fun, file)
    run(fun, file)
    data.write_text("2.0")
    for maxiter in (3, 5):  # it opens files, so it is checked even though it has finished
        with pytest.raises(ps.errors.OtherRun, match="a file that it reads may have changed"):
            run(fun, file, maxiter=maxiter)


def test_what_the_function_itself_changes_is_no_reason_for_a_warning(file):
    calls, cache = [], {}

    def fun(x):
        calls.append(x)
        return cache.setdefault(x.tobytes(), float((x**2).sum()))

    for maxiter in (3, 3, 5, 5):
        run(fun, file, maxiter=maxiter)
        calls += [None]  # and in between
    assert len([x for x in calls if x is not None]) <= 60 + 2 * 3


def test_an_edit_that_changes_no_value_is_a_warning_once(file):
    def edited(text):
        return module(f"def fun(x):\n    {text}\n    return float((x**2).sum())").fun

    run(edited("pass"), file)
    for maxiter in (3, 5):
        with pytest.warns(RuntimeWarning, match=r"code of fun\. Evaluation \d+ and \d+ gave the recorded"):
            ps.minimize(edited("len('edited')"), BOUNDS, store=quick(file), **RUN | {"maxiter": maxiter})
    run(edited("len('edited')"), file, maxiter=6)


def test_a_noisy_function_is_not_refused(file):
    rng = np.random.default_rng(1)

    def fun(x):
        return float((x**2).sum() + rng.normal())

    run(fun, file)
    run(fun, file, maxiter=5)
    file.unlink()
    run(fun, file, reevaluate=0.2)
    run(fun, file, reevaluate=0.2, maxiter=5)
    with pytest.warns(RuntimeWarning, match="code of .*Nothing was checked"):
        ps.minimize(lambda x: fun(x), BOUNDS, store=quick(file), reevaluate=0.2, **RUN)


def test_a_function_that_fails_where_it_did_not_is_refused(file):
    def broken(x):
        raise FileNotFoundError("no simulator")

    run(closure(1.0), file)
    with pytest.raises(ps.errors.OtherRun, match="but the function raised FileNotFoundError"):
        run(broken, file, maxiter=5)


@pytest.mark.parametrize(
    "how", [{"vectorized": True}, {"workers": 2}, {"workers": ps.Workers(asynchronous=True)}, {"workers": map}]
)
def test_however_the_function_is_called(file, how):
    def made(c):
        axis = 1 if "vectorized" in how else None
        return lambda x: ((x - c) ** 2).sum(axis=axis)

    run(made(1.0), file, **how)
    run(made(1.0), file, **how, maxiter=4)
    with pytest.raises(ps.errors.OtherRun, match="another function"):
        run(made(2.0), file, **how, maxiter=5)


def test_rounding_is_no_difference(file):
    run(closure(1.0), file)
    run(lambda x: closure(1.0)(x) * (1 + 1e-13), ps.Store(file, trust=True))
    with pytest.warns(RuntimeWarning, match="gave the recorded values again"):
        ps.minimize(lambda x: closure(1.0)(x) * (1 + 1e-13), BOUNDS, store=quick(file), **RUN)


def test_rounding_in_single_precision_is_no_difference(file):
    def single(scale):
        return lambda x: np.float32(closure(1.0)(x)) * np.float32(scale)

    run(single(1.0), file)
    with pytest.warns(RuntimeWarning, match="gave the recorded values again"):
        ps.minimize(single(1.00001), BOUNDS, store=quick(file), **RUN)
    with pytest.raises(ps.errors.OtherRun, match="another function"):
        run(single(1.001), file)


def test_an_interrupt_while_points_are_compared_loses_nothing(file):
    def fun(x):
        if stops:
            raise KeyboardInterrupt
        return float((x**2).sum())

    stops = False
    first = run(fun, file)
    stops = True
    written = file.read_bytes()
    with pytest.raises(KeyboardInterrupt, match="nothing was lost"):
        run(fun, file, maxiter=5)
    assert file.read_bytes() == written
    stops = False
    assert run(fun, file).fun == first.fun
