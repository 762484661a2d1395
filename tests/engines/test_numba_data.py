"""Data of objectives for numba: one program for all of them, which sees every change."""

import gc
import math
import os
import weakref
from collections import namedtuple
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import paoswarm as ps

numba = pytest.importorskip("numba", reason="numba is not installed")
from numba.core import event  # noqa: E402

from paoswarm.engines.engines import ForNumba  # noqa: E402
from paoswarm.engines.numba_objective import objective  # noqa: E402

HOW = {"method": "PAO", "engine": "numba", "n_particles": 10, "maxiter": 3, "rng": 4}
BOX = [(-5.0, 5.0)] * 2
Place = namedtuple("Place", "first second")


def distance(x, places):
    total = 0.0
    for i in range(len(x)):
        total += (x[i] - places[i]) ** 2
    return total


def resident():
    """Bytes of memory in use; zero where the system does not say."""
    file = Path("/proc/self/statm")
    return int(file.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if file.exists() else 0


def fit(k):
    return ps.minimize(distance, BOX, args=(np.array([k, 1.0]),), **HOW)


def test_other_data_are_no_other_program_and_are_not_kept():
    fit(0.0)
    data = np.array([2.0, 1.0])
    seen, before = weakref.ref(data), resident()
    with event.install_recorder("numba:compile") as compiled:
        found = [fit(k / 40).fun for k in range(60)]
        ps.minimize(distance, BOX, args=(data,), **HOW)
    del data
    gc.collect()
    assert compiled.buffer == []
    assert len(set(found)) == 60
    assert seen() is None
    assert resident() - before < 10e6  # a program takes about a megabyte, which numba never gives back


def test_other_bounds_of_logarithmic_variables_are_no_other_program():
    def run(low):
        return ps.minimize(distance, [ps.Real(low, 5.0, log=True), (0.0, 1.0)], args=(np.zeros(2),), **HOW)

    run(1e-3)
    with event.install_recorder("numba:compile") as compiled:
        assert run(1e-2).x[0] != run(1e-4).x[0]
    assert compiled.buffer == []


def of_all_kinds(x, c, is_on, parts, place, text):
    matrix, whole, empty = parts
    total = c.imag + whole + len(empty) + len(text) + place.first
    for i in range(2):
        for j in range(2):
            total += (i + 3 * j + 1) * matrix[i, j]
    return total * x[0] if is_on else math.nan


def test_compiled_code_reads_data_as_python_does():
    square = np.arange(16.0).reshape(4, 4)
    rest = 1 + 2j, True, (square[::2, ::3].T, 7, ()), Place(0.5, np.arange(3)), "text"
    readonly = square[:2, :2].copy()
    readonly.flags.writeable = False
    for args in (rest, (1 + 2j, np.bool_(True), (readonly, np.int64(7), ()), Place(0.5, np.arange(3)), "äöü€")):
        point = np.array([1.5])
        assert objective(ForNumba(of_all_kinds, args), 1)(point[None])[0] == of_all_kinds(point, *args)


def writes_to_its_data(x, places):
    places[0] += 1
    return x[0]


def test_compiled_code_does_not_change_data():
    with pytest.raises(TypeError, match="numba cannot compile writes_to_its_data"):
        ps.minimize(writes_to_its_data, BOX, args=(np.zeros(2),), **HOW)


def outside(place, more):
    def fun(x):
        return (x[0] - place) ** 2 + (x[1] - more.there) ** 2

    return fun


def value(place, more):
    return objective(outside(place, more), 2)(np.zeros((1, 2)))[0]


def test_a_plain_function_is_compiled_again_if_a_constant_has_changed():
    more = ModuleType("more")
    more.there = 3.0
    place = np.float64(2.0)
    assert value(place, more) == 13
    with event.install_recorder("numba:compile") as compiled:
        assert value(place, more) == 13
    assert compiled.buffer == []
    more.there = 4.0
    assert value(place, more) == 20
    assert value(1.0, more) == 17
    array = np.array(0.5)[None]

    def fun(x):
        return x[0] - array[0]

    assert objective(fun, 2)(np.zeros((1, 2)))[0] == -0.5
    array[0] = 1.5
    assert objective(fun, 2)(np.zeros((1, 2)))[0] == -1.5
