"""Stores written record by record, with the times and messages that a test wants."""

from paoswarm.store.log import Log


def header(function="minimize", bounds=((-5, 5), (-5, 5)), workers=1, **problem):
    """The description of a run."""
    problem = {"bounds": [list(side) for side in bounds], "method": {"paoswarm": "PAO"}, "rng": None, **problem}
    how = {"vectorized": False, "workers": workers, "timeout": None, "retries": 1}
    run = {"function": function, "problem": problem, "limits": {"maxfev": 100, "expected": 100}, "how": how}
    return {"versions": {"paoswarm": "0.1.0"}, "run": run}


def opened(t=0.0, pid=1):
    return {"open": {"pid": pid, "host": "elsewhere", "t": t}}


def evaluation(i, t, f, x=(0.0, 0.0), **more):
    return {"i": i, "t": t, "x": [list(x)], "f": [f], **more}


def write(path, head, records):
    log = Log(path, fsync=False)
    log.start(head)
    for record in records:
        log.append(record)
    log.close()
    return path
