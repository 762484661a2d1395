"""The child process that evaluates points."""

import glob
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
from fault_functions import run, serial, value
from survival import needs_fork

from paoswarm.evaluate.child import Child, ProcessLost
from paoswarm.evaluate.evaluator import Evaluator


@needs_fork
def test_an_answer_to_an_earlier_request_is_never_taken_for_this_one():
    child = Child.start_process(value, None, False)
    try:
        first = child.call(np.array([[1.0, 2.0]]), None)
        assert first.answers == [float(value(np.array([1.0, 2.0])))]
        child.send(np.array([[3.0, 4.0]]), None)  # not waited for
        with pytest.raises(ProcessLost):
            child.call(np.array([[5.0, 6.0]]), None)
        assert not child.is_alive
    finally:
        child.kill()


@needs_fork
def test_a_forked_process_has_only_its_own_end_of_a_connection():
    """Otherwise it could write to its siblings, and would not notice that its parent has gone."""

    def count_sockets(x=None):
        files = [path for path in glob.glob("/proc/self/fd/*") if os.path.islink(path)]
        return sum(os.readlink(path).startswith("socket:") for path in files)

    children = []
    try:
        before = count_sockets()
        for _ in range(3):
            children.append(Child.start_process(count_sockets, None, False))
        assert [child.call(np.zeros((1, 2)), None).answers for child in children] == [[before + 1]] * 3
    finally:
        for child in children:
            child.kill()


@needs_fork
def test_workers_do_not_share_their_random_numbers():
    result = run(lambda x: float(np.random.rand()), workers=4, n_particles=12, maxiter=0)  # noqa: NPY002
    assert len(set(result.swarm.value.tolist())) == 12


def test_a_warning_says_when_sending_costs_more_than_evaluating():
    with Evaluator(value) as evaluate:
        evaluate.caller._waited, evaluate.caller._worked = 6.0, 0.5
        with pytest.warns(RuntimeWarning, match=r"0\.5 s .*6 s.*workers=1"):
            evaluate.warn()
        evaluate.caller._worked = 2.0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            evaluate.warn()


SCRIPT = """
import multiprocessing, sys
import numpy as np
import paoswarm as ps
if __name__ == "__main__":
    multiprocessing.set_start_method(sys.argv[1])
    centre = np.array([1.0, -2.0])
    settings = {"method": ps.PAO(), "n_particles": 8, "maxiter": 3, "workers": int(sys.argv[2]), "rng": 1}
    result = ps.minimize(lambda x: float(((x - centre) ** 2).sum()), [(-4, 5)] * 2, **settings)
    print(result.fun.hex(), result.nfev)
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_processes_that_are_not_forked(tmp_path, method):
    pytest.importorskip("cloudpickle")
    (tmp_path / "script.py").write_text(SCRIPT)
    said = [
        subprocess.run([sys.executable, tmp_path / "script.py", method, n], capture_output=True, text=True, check=True)
        for n in ("1", "2")
    ]
    assert said[0].stdout == said[1].stdout != ""
    assert serial().nfev == int(said[0].stdout.split()[1])
