"""The fingerprint of an objective: every edit and every change of what it uses shows, and nothing else."""

import os
import sys
import threading
from dataclasses import dataclass, field
from functools import lru_cache, partial, wraps
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from other_process import outputs_with_other_hashes
from scipy import sparse, stats
from scipy.optimize import rosen

import paoswarm as ps
from paoswarm.store import fingerprint as module_of_fingerprint
from paoswarm.store.fingerprint import fingerprint


def with_a_set(x):
    return x in {"a", "b", "c", "d", "e"}  # its order depends on the process


def module(source, name="simulator", **contents):
    """A module of the user with this source."""
    made = ModuleType(name)
    vars(made).update(contents)
    exec(source, vars(made))
    return made


class Simulator:
    unit = 1.0

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return self.run(x)

    def run(self, x):
        return self.scale * x.sum() + self.unit

    def plot(self):
        return "not used"


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return self.scale * x.sum()


@dataclass
class Model:
    scale: float
    names: list = field(default_factory=list)

    def __call__(self, x):
        return self.scale * x.sum()


class Table(dict):
    def __call__(self, x):
        return self["a"] * x.sum()


def closure(c):
    return lambda x: float(((x - c) ** 2).sum()) + c


def with_default(c):
    def fun(x, *, scale=c):
        return scale * x.sum()

    return fun


def with_attribute(c):
    def fun(x):
        return fun.scale * x.sum()

    fun.scale = c
    return fun


def decorated(fun):
    @wraps(fun)
    def wrapper(x):
        return fun(x)

    return wrapper


def nested(c):
    helper = closure(c)
    return lambda x: [helper(y) for y in x]


def with_global(c):
    return module("def fun(x): return (x * data).sum()", data=c).fun


def with_helper(c):
    return module(f"def helper(x): return x.sum() + {c!r}\ndef fun(x): return helper(x)").fun


def with_helper_of_a_helper(c):
    inner = module("def value(x): return SCALE * x.sum()", "inner", SCALE=c)
    outer = module("def helper(x): return inner.value(x)", "outer", inner=inner)
    return module("def fun(x): return outer.helper(x)", outer=outer).fun


def with_a_constructed_class(c):
    return module(f"class M:\n def __init__(self, x): self.y = x + {c!r}\ndef fun(x): return M(x).y").fun


def with_class_attribute(c):
    return type("Own", (Simulator,), {"unit": c})(1.0)


def frame(c):
    return pytest.importorskip("pandas").DataFrame({"a": [1.0, c], "b": ["x", "y"]})


ARRAYS = (np.arange(6.0), np.r_[np.arange(5.0), 5.5])
CAPTURES = {
    "closure": (closure, 1.0, 2.0),
    "array in a closure": (closure, *ARRAYS),
    "closure of a closure": (nested, 1.0, 2.0),
    "default": (with_default, 1.0, 2.0),
    "attribute of the function": (with_attribute, 1.0, 2.0),
    "global": (with_global, 1.0, 2.0),
    "array as a global": (with_global, *ARRAYS),
    "helper": (with_helper, 1.0, 2.0),
    "helper of a helper": (with_helper_of_a_helper, 1.0, 2.0),
    "constructor": (with_a_constructed_class, 1.0, 2.0),
    "attribute": (Simulator, 1.0, 2.0),
    "array as an attribute": (Simulator, *ARRAYS),
    "class attribute": (with_class_attribute, 1.0, 2.0),
    "slot": (Slotted, 1.0, 2.0),
    "dataclass": (Model, 1.0, 2.0),
    "dict": (lambda c: Table(a=c), 1.0, 2.0),
    "bound object": (lambda c: Simulator(c).run, 1.0, 2.0),
    "bound object's object": (lambda c: Simulator(SimpleNamespace(a=[c])).run, 1.0, 2.0),
    "partial": (lambda c: partial(rosen, c), 1.0, 2.0),
    "array in a partial": (lambda c: partial(rosen, c), *ARRAYS),
    "keyword of a partial": (lambda c: partial(Simulator.run, x=c), 1.0, 2.0),
    "partial of a partial": (lambda c: partial(partial(rosen, c), 3), 1.0, 2.0),
    "cached": (lambda c: lru_cache(closure(c)), 1.0, 2.0),
    "decorated": (lambda c: decorated(closure(c)), 1.0, 2.0),
    "vectorised by NumPy": (lambda c: np.vectorize(closure(c)), 1.0, 2.0),
    "sparse matrix": (lambda c: closure(sparse.csr_matrix([[0.0, c]])), 1.0, 2.0),
    "distribution": (lambda c: stats.norm(0, c).logpdf, 1.0, 2.0),
    "object array": (lambda c: closure(np.array([None, c], dtype=object)), 1.0, 2.0),
    "list of numbers": (lambda c: closure([1.0] * 500 + [c]), 1.0, 2.0),
    "list of lists": (lambda c: closure([["a", 1], ["b", (c,)]]), 1.0, 2.0),
    "dict of lists": (lambda c: closure({"a": [1, None], "b": [c]}), 1.0, 2.0),
    "dict of arrays": (lambda c: closure({"a": [1, None], "b": np.array([c])}), 1.0, 2.0),
    "array of another shape": (closure, np.zeros((2, 3)), np.zeros((3, 2))),
    "empty array": (closure, np.zeros(0), np.zeros((0, 2))),
    "set": (lambda c: closure({"a", "b", c}), "c", "d"),
    "order of a list": (lambda c: closure(list(c)), "ab", "ba"),
    "type": (closure, 1, 1.0),
    "library function": (lambda c: closure(c), np.sin, np.cos),
    "data frame": (lambda c: closure(frame(c)), 1.0, 2.0),  # slow to import
}


@pytest.mark.parametrize("name", CAPTURES)
def test_what_the_function_uses_counts_by_content(name):
    make, one, other = CAPTURES[name]
    assert fingerprint(make(one)) == fingerprint(make(one))
    assert fingerprint(make(one)).changes(fingerprint(make(other)))


def test_the_changed_part_is_named():
    def changed(make):
        return fingerprint(make(1.0)).changes(fingerprint(make(2.0)))

    assert changed(with_global) == ["global data"]
    assert changed(with_helper) == ["code of helper"]
    assert changed(Simulator) == ["Simulator.scale"]
    assert changed(closure) == ["c in closure.<locals>.<lambda>"]
    assert changed(lambda c: partial(rosen, c)) == ["argument 0 of the partial"]


def test_what_the_function_does_not_use_does_not_count():
    source = "def other(x): return {0}\ndef fun(x):\n    '''{0}'''\n    return x.sum()"
    one, other = (module(source.format(text), unused=text).fun for text in ("one", "other"))
    assert fingerprint(one) == fingerprint(other)
    source = "class Own:\n def __call__(self, x): return x.sum()\n def plot(self): return {0!r}"
    one, other = (module(source.format(text)).Own() for text in ("one", "other"))
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(closure({"a": 1, "b": 2})) == fingerprint(closure({"b": 2, "a": 1}))


def test_code_of_others_counts_by_name():
    for of_others in (rosen, np.sum, stats.norm.logpdf, sum, ps.problems.get("sphere", 2), lambda x: rosen(x)):
        found = fingerprint(of_others)
        assert found.parts
        assert not found.unsure
        assert len(found.parts) < 20  # nothing of theirs is followed


class Contrary:
    def __getattr__(self, name):
        raise RuntimeError(name)

    def __reduce_ex__(self, protocol):
        raise RuntimeError("no")


def test_what_cannot_be_compared_is_left_out_without_an_error():
    itself = []
    itself.append(itself)
    deep = []
    for _ in range(5000):
        deep = [deep]
    with open(os.devnull) as file:
        for thing in (file, threading.Lock(), np.random.default_rng(1), (i for i in ()), itself, deep, Contrary(), sys):
            assert fingerprint(closure(thing)) == fingerprint(closure(thing))
    moved = np.random.default_rng(1)
    before = fingerprint(closure(moved))
    moved.random()  # the state of a generator is no data
    assert fingerprint(closure(moved)) == before
    assert fingerprint(closure(deep)).unsure
    assert fingerprint(module("def fun(x): return open(x)").fun).unsure


def test_a_sample_of_huge_arrays_and_lists_is_compared(monkeypatch):
    monkeypatch.setattr(module_of_fingerprint, "_LARGEST", 1000)
    monkeypatch.setattr(module_of_fingerprint, "_SAMPLE", 100)
    monkeypatch.setattr(module_of_fingerprint, "_MOST", 1000)
    monkeypatch.setattr(module_of_fingerprint, "_LONGEST", 1000)
    data = np.arange(1000.0)
    for huge, other in ((data, data + 1), (["a"] * 5000, ["b"] * 5000), (data, data[:-1])):
        found = fingerprint(closure(huge))
        assert "compared" in found.unsure[0]
        assert found.changes(fingerprint(closure(other)))


def test_fingerprints_and_descriptions_are_the_same_in_another_process():
    code = f"""
import sys; sys.path.insert(0, {str(__file__).rpartition("/")[0]!r})
from test_encoding import Slower, describe
from test_fingerprint import CAPTURES, fingerprint, with_a_set
print(describe(Slower({{"a", "b", "c", "d", "e"}})), describe(Slower(Slower)))
print(fingerprint(with_a_set))
for name, (make, one, _) in list(CAPTURES.items())[:-1]:
    print(name, fingerprint(make(one)))
"""
    found = outputs_with_other_hashes(code)
    assert len(found) == 1
    _, *lines = found.pop().splitlines()  # the first are descriptions
    assert lines[0] == str(fingerprint(with_a_set))
    assert lines[1:] == [f"{name} {fingerprint(make(one))}" for name, (make, one, _) in list(CAPTURES.items())[:-1]]


def test_code_of_another_python_version_cannot_be_compared():
    one = fingerprint(with_helper(1.0))
    other = fingerprint(with_helper(2.0))
    assert one.changes(other)
    assert not one.changes(other._replace(python="3.99"))
