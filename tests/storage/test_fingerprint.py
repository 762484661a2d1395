"""An edited objective shows."""

import warnings
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from other_process import outputs_with_other_hashes
from scipy import stats
from scipy.optimize import rosen

import paoswarm as ps
from paoswarm.storage.fingerprint import objective_checksum as checksum

RUN = {"n_particles": 10, "maxiter": 3, "rng": 1}


def shifted(shift):
    exec(f"def fun(x):\n    return float(((x - {shift}) ** 2).sum())", namespace := {})
    return as_if_in_a_file(namespace["fun"])


def as_if_in_a_file(fun):
    fun.__code__ = fun.__code__.replace(co_filename="simulator.py")
    fun.__module__ = "simulator"
    return fun


def test_an_edited_objective_is_a_warning_and_the_recorded_values_are_used(tmp_path):
    first = ps.minimize(shifted(0), [(-5, 5)] * 2, store=tmp_path / "run", **RUN)
    with pytest.warns(RuntimeWarning, match="the code of the function has changed since its values in .*run were"):
        again = ps.minimize(shifted(3), [(-5, 5)] * 2, store=tmp_path / "run", **RUN)
    assert again.fun == first.fun
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.minimize(shifted(0), [(-5, 5)] * 2, store=tmp_path / "run", **RUN)


def test_who_goes_on_with_the_edited_objective_is_warned_once(tmp_path):
    ps.minimize(shifted(0), [(-5, 5)] * 2, store=tmp_path / "run", **RUN)
    longer = RUN | {"maxiter": 5}
    with pytest.warns(RuntimeWarning, match="has changed"):
        ps.minimize(shifted(3), [(-5, 5)] * 2, store=tmp_path / "run", **longer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.resume(tmp_path / "run", shifted(3), maxiter=7)


def test_an_edited_likelihood_is_a_warning(tmp_path):
    def posterior(centre):
        likelihood = as_if_in_a_file(eval(f"lambda x: float(-((x[0] - {centre}) ** 2))"))
        return ps.sample(likelihood, [stats.norm(0, 1)], n_effective=100, rng=1, store=tmp_path / "run")

    posterior(0)
    with pytest.warns(RuntimeWarning, match="has changed"):
        posterior(1)


class Simulator:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return self.scale * x.sum()

    def run(self, x):
        return self.scale * x.sum() + 1


@dataclass
class Model:
    scale: float

    def __call__(self, x):
        return self.scale * x.sum()


def test_only_code_counts():
    assert checksum(shifted(1)) == checksum(shifted(1)) != checksum(shifted(2))
    assert checksum(Simulator(1)) == checksum(Simulator(2)) != checksum(Simulator(1).run) != ""
    assert checksum(partial(Simulator(1), np.ones(3))) == checksum(Simulator(1))  # objects are not looked into
    assert checksum(partial(Simulator(1), 3)) != checksum(partial(Simulator(1), 4))
    assert checksum(Model(1.0)) != ""
    for of_others in (rosen, np.sum, stats.norm.logpdf, sum, ps.problems.get("sphere", 2)):
        assert checksum(of_others) == ""


def test_a_checksum_is_the_same_in_another_process():
    source = "lambda x: x in {'a', 'b', 'c', 'd', 'e'}"  # a set, whose order depends on the process
    code = f"""
import sys; sys.path.insert(0, {str(__file__).rpartition("/")[0]!r})
from test_fingerprint import as_if_in_a_file, checksum
print(checksum(as_if_in_a_file({source})))
"""
    found = outputs_with_other_hashes(code)
    assert len(found) == 1
    assert found.pop().strip() == checksum(as_if_in_a_file(eval(source)))


def test_an_edited_default_counts():
    one, other = (as_if_in_a_file(f) for f in (lambda x, a=1.0: a * x, lambda x, a=2.0: a * x))
    assert checksum(one) != checksum(other)
    one, other = (as_if_in_a_file(f) for f in (lambda x, *, a="b": a, lambda x, *, a="c": a))
    assert checksum(one) != checksum(other)
