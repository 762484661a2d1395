"""Wrong arguments end in a sentence of ours, not in an error of Python or NumPy from deep inside."""

import inspect
import random
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest

import paoswarm as ps

PACKAGE = str(Path(ps.__file__).parent)
HUGE = 10**400
WRONG = [
    *(5, -1, 0, 3.5, "x", "", None, True, [1], ["a", "a"], [[1, 2], 3], (1, 2), {"a": 1}, {1: 2}, b"x", 1 + 2j),
    *(float("nan"), float("inf"), HUGE, np.array(3), np.array([]), np.array(["a"]), object(), len, int),
]
OF_BUILTINS = (
    *("not iterable", "has no attribute", "not subscriptable", "has no len", "can't convert", "too large to convert"),
    *(
        "expected str, bytes or os.PathLike",
        "unhashable type",
        "must be string or compiled pattern",
        "unsupported oper",
    ),
    *("inhomogeneous shape", "dictionary update", "iteration over a 0-d", "could not convert", "not supported between"),
    *("must be real number", "only length-1", "only 0-dimensional", "argument must be", "object is not callable"),
    *("broadcast", "out of bounds", "truth value", "invalid literal", "cannot convert"),
)


def bowl(x):
    return float(np.sum(np.asarray(x, dtype=float) ** 2))


def line(x, t):
    return x[0] + x[1] * t


BOX = [(-1.0, 1.0)] * 2
QUICK = {"maxfev": 20, "rng": 1}
T = np.linspace(0, 1, 5)


def calls():
    """Functions of one wrong argument, each with the right value of all others; by function and argument."""
    result = ps.minimize(bowl, BOX, **QUICK)
    posterior = ps.sample(lambda x: -bowl(x), BOX, n_effective=100, n_particles=100, maxfev=400, rng=1)
    right = {
        "minimize": (ps.minimize, {"fun": bowl, "bounds": BOX, **QUICK}),
        "minimize_many": (ps.minimize_many, {"fun": bowl, "bounds": BOX, "runs": 2, **QUICK}),
        "Optimizer": (ps.Optimizer, {"bounds": BOX, "rng": 1}),
        "Store": (ps.Store, {"path": "no_such_folder/run.paoswarm"}),
        "Workers": (ps.Workers, {}),
        "Command": (ps.Command, {"command": "echo 1"}),
        "Real": (ps.Real, {"low": 0, "high": 1}),
        "Integer": (ps.Integer, {"low": 0, "high": 3}),
        "Periodic": (ps.Periodic, {"low": 0, "high": 1}),
        "Choice": (ps.Choice, {"entries": ["a", "b"]}),
        "PAO": (ps.PAO, {}),
        "AdaptivePAO": (ps.AdaptivePAO, {}),
        "Restarts": (ps.Restarts, {"method": ps.DensePAO()}),
        "read_space": (ps.read_space, {"given": {"a": [0, 1]}}),
        "scipy_method": (ps.scipy_method, {}),
        "uncertainty": (ps.uncertainty, {"result": result, "sum_of_squares": bowl, "n_data": 9}),
        "interval": (posterior.interval, {}),
        "quantile": (posterior.quantile, {"share": 0.5}),
        "resample": (posterior.resample, {"n": 3}),
        "predict": (posterior.predict, {"function": bowl, "n": 3}),
        "compare": (posterior.compare, {"other": posterior}),
    }
    for name, (function, given) in right.items():
        for argument in inspect.signature(function).parameters:
            if argument not in ("callback", "progress", "command", "store", "time_limit", "kwargs", "settings"):
                yield f"{name}({argument}=", lambda wrong, f=function, g=given, a=argument: f(**g | {a: wrong})
    yield "bounds", lambda wrong: ps.minimize(bowl, [(0, wrong)], **QUICK)
    yield "x0", lambda wrong: ps.minimize(bowl, BOX, x0=[wrong, 0], **QUICK)
    yield "tell", told
    yield "explore", lambda wrong: ps.explore(wrong).close()


def told(wrong):
    optimizer = ps.Optimizer(BOX, rng=1)
    optimizer.ask()
    optimizer.tell(wrong)


def raw(error):
    """Where an error that is not a sentence of ours was raised; None for one that is."""
    if isinstance(error, FileNotFoundError | IsADirectoryError):  # they name the file
        return None
    last = traceback.extract_tb(error.__traceback__)[-1]
    is_ours = last.filename.startswith(PACKAGE) and "raise" in (last.line or "")
    is_ours = is_ours or (last.filename.startswith(PACKAGE) and not any(text in str(error) for text in OF_BUILTINS))
    wanted = isinstance(error, ValueError | TypeError | OSError | RuntimeError | ImportError)
    return None if is_ours and wanted else f"{last.filename}:{last.lineno} {type(error).__name__}: {str(error)[:90]}"


@pytest.mark.parametrize("share", [0.12, pytest.param(1.0, marks=pytest.mark.slow)])
def test_few_wrong_calls_end_in_raw_errors(share, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    chance, count, found = random.Random(5), 0, []
    for name, call in calls():
        for wrong in WRONG:
            if chance.random() >= share:
                continue
            count += 1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    call(wrong)
                except Exception as error:
                    if (where := raw(error)) is not None:
                        found.append(f"{name} {wrong!r:.20}: {where}")
    assert count > 200
    assert len(found) <= 0.005 * count, "\n".join(found)
