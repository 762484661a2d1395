"""Files with right checksums that hold nonsense, and names that are no files: a clear error, and never a hang."""

import json
import os
import sys
import zlib

import numpy as np
import pytest

import paoswarm as ps
from paoswarm import cli
from paoswarm.explorer.run_room import RunRoom
from paoswarm.store import log
from paoswarm.store.encoding import decode_seed, encode_seed
from paoswarm.store.log import DamagedStore, StoreError, decode, encode
from paoswarm.store.watch import Progress

BOUNDS = [(-5, 5)] * 2
RUN = {"method": ps.PAO(), "n_particles": 5, "maxiter": 2}
DEEP = 900  # levels that Python's JSON parser still accepts


def fun(x):
    return float((x**2).sum())


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "run"
    ps.minimize(fun, BOUNDS, rng=1, store=ps.Store(path, fsync="never"), **RUN)
    return path.read_bytes().splitlines(keepends=True)


def signed(text):
    """A line with this text, which need not be a record, and its checksum."""
    return text[:-1] + b',"crc":"%08x"}\n' % zlib.crc32(text[:-1])


def nested(depth, before=b"[", after=b"]"):
    return before * depth + b"1" + after * depth


def readers(path):
    store = ps.Store(path, fsync="never")
    return {
        "read": store.read,
        "run": store.run,
        "minimize": lambda: ps.minimize(fun, BOUNDS, rng=None, store=store, **RUN),
        "resume": lambda: ps.resume(store, fun),
        "watch": lambda: str(Progress(path).update()),
    }


EVALUATION = {"i": 15, "t": 1.0, "x": [[1.0, 2.0]], "f": [1.0]}
RECORDS = {
    "a number too large to count": EVALUATION | {"i": 10**30},
    "a number too large for memory": EVALUATION | {"i": 10**12},
    "a number too large to be true": EVALUATION | {"i": 10**9},
    "a negative number": EVALUATION | {"i": -1},
    "a number that is none": EVALUATION | {"i": "15"},
    "a fraction of a number": EVALUATION | {"i": 0.5},
    "a list of nonsense as numbers": EVALUATION | {"i": [None]},
    "a value that overflows": EVALUATION | {"f": [10**400]},
    "a value that is no number": EVALUATION | {"f": ["abc"]},
    "a value that is a list": EVALUATION | {"f": [[1.0]]},
    "a coordinate that overflows": EVALUATION | {"x": [[1.0, 10**400]]},
    "points of other lengths": EVALUATION | {"i": 15, "x": [[1.0], [1.0, 2.0, 3.0]], "f": [1.0, 2.0]},
    "a point of another dimension": EVALUATION | {"x": [[1.0, 2.0, 3.0]]},
    "text as a point": EVALUATION | {"x": ["12"]},
    "no points": EVALUATION | {"x": [], "f": []},
    "values that are no list": EVALUATION | {"f": 1.0},
    "no time": {"i": 15, "x": [[1.0, 2.0]], "f": [1.0]},
    "a time beyond all": EVALUATION | {"t": 10**400},
    "a reason without a point": EVALUATION | {"why": {"7": "x"}},
    "a reason with a huge number": EVALUATION | {"why": {"9" * 50: "x"}},
    "reasons that are no reasons": EVALUATION | {"why": ["x"]},
    "asked too much": EVALUATION | {"asked": 10**400},
    "asked too late": EVALUATION | {"asked": 15},
    "an opening that is none": {"open": [1]},
    "a process without a number": {"open": {"pid": "x", "t": 1.0}},
    "a process with a huge number": {"open": {"pid": 10**400, "t": 1.0}},
    "an end that is none": {"end": 1},
    "an end without a message": {"end": {"message": 3}},
    "limits that are none": {"limits": 5},
    "limits beyond all": {"limits": {"expected": 10**400}},
    "polishing from nowhere": {"polish": "x"},
    "set aside from nowhere": {"aside": 10**400},
}


REAL = {"paoswarm": "Real", "with": {"low": 0.0, "high": 1.0}}
NO_BOUNDS = [
    *(5, "x", {"items": 5}, {"items": [["a"]]}, {"items": [[[1], REAL], [[2, 3], REAL]]}, {"float": "abc"}),
    *({"array": [[1], [2, 3]]}, {"array": [1], "dtype": "zzz"}, {"paoswarm": ["PAO"]}, {"paoswarm": "Real", "with": 5}),
    *({"paoswarm": "Real", "with": {"low": 3, "high": 1}}, {"scipy.stats": "norm", "args": 3, "kwds": 4}),
]


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_of_nonsense_with_the_right_checksum(lines, tmp_path, name):
    path = tmp_path / "run"
    data = b"".join([*lines, encode(RECORDS[name])])
    path.write_bytes(data)
    readable = ["run"] if "f" in RECORDS[name] else []  # the description does not need the evaluations
    for how, read in readers(path).items():
        if how not in readable:
            with pytest.raises(DamagedStore, match=f"damaged in line {len(lines) + 1}: .* not changed"):
                read()
    assert path.read_bytes() == data


@pytest.mark.parametrize("bounds", NO_BOUNDS, ids=range(len(NO_BOUNDS)))
def test_bounds_that_make_no_sense(lines, tmp_path, bounds):
    path = tmp_path / "run"
    path.write_bytes(
        header_with(lines, lambda header: header["run"]["problem"].update(bounds=bounds)) + b"".join(lines[1:])
    )
    for read in (ps.Store(path).to_dataframe, lambda: RunRoom(path).show({})):
        with pytest.raises(DamagedStore, match=r"damaged in line 1: the recorded bounds .* not changed"):
            read()


def test_bounds_of_more_variables_than_the_points_have(lines, tmp_path):
    path = tmp_path / "run"
    path.write_bytes(
        header_with(lines, lambda header: header["run"]["problem"].update(bounds=[REAL] * 3)) + b"".join(lines[1:])
    )
    with pytest.raises(DamagedStore, match="the recorded bounds have 3 variables, its points 2"):
        ps.Store(path).to_dataframe()


def header_with(lines, change):
    header = decode(lines[0])
    change(header)
    return encode(header)


HEADERS = {
    "no run": lambda header: header.update(run=None),
    "no problem": lambda header: header["run"].pop("problem"),
    "more than a run": lambda header: header["run"].update(more=1),
    "a run of numbers": lambda header: header["run"].update(problem=3, limits=4),
    "versions of nothing": lambda header: header.update(versions=[]),
    "huge limits": lambda header: header["run"]["limits"].update(expected=10**400),
    "a huge swarm": lambda header: header["run"]["problem"].update(n_particles=10**400),
    "deep bounds": lambda header: header["run"]["problem"].update(bounds=json.loads(nested(DEEP))),
    "a deep method": lambda header: header["run"]["problem"].update(method=json.loads(nested(300, b'{"with":', b"}"))),
}


@pytest.mark.parametrize("name", HEADERS)
def test_a_header_of_nonsense_with_the_right_checksum(lines, tmp_path, name):
    path = tmp_path / "run"
    path.write_bytes(header_with(lines, HEADERS[name]) + b"".join(lines[1:]))
    for read in readers(path).values():
        with pytest.raises(DamagedStore, match=r"damaged in line 1: .* not changed"):
            read()


def test_nesting_without_end(lines, tmp_path):
    path = tmp_path / "run"
    deepest = nested(200_000)
    for content in (
        [signed(b'{"paoswarm":"evaluations","schema":' + deepest + b"}")],
        [*lines, signed(b'{"a":' + deepest + b"}")],
    ):
        path.write_bytes(b"".join(content))
        for read in readers(path).values():
            with pytest.raises(DamagedStore, match=r"damaged in line \d+"):
                read()


ARGUMENTS = {
    "n_particles": 10**9,
    "workers": 10**6,
    "bounds": {"array": [[1], [2, 3]]},
    "method": {"paoswarm": ["PAO"]},
    "init": {"paoswarm": "PAO", "with": 5},
    "x0": {"float": "abc"},
    "f0": {"items": 5},
    "reevaluate": {"scipy.stats": "norm", "args": 3, "kwds": 4},
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_resume_does_not_believe_everything(lines, tmp_path, name):
    path = tmp_path / "run"
    part = "how" if name == "workers" else "problem"
    path.write_bytes(header_with(lines, lambda header: header["run"][part].update({name: ARGUMENTS[name]})))
    with pytest.raises(DamagedStore, match=f"the recorded {name}.* not changed"):
        ps.resume(path, fun)


GENERATORS = {kind: encode_seed(np.random.Generator(getattr(np.random, kind)(1))) for kind in ("MT19937", "Philox")}
SEEDS = [
    None,
    7,
    {},
    {"entropy": 1, "spawn_key": [], "pool_size": 10**9},
    {"entropy": 1, "spawn_key": [], "pool_size": "4"},
    {"entropy": "x", "spawn_key": [], "pool_size": 4},
    {"entropy": -1, "spawn_key": [], "pool_size": 4},
    {"entropy": 1, "spawn_key": 3, "pool_size": 4},
    {"entropy": 1, "spawn_key": [], "pool_size": 4, "more": 1},
    {"entropy": 1, "spawn_key": [], "pool_size": 4, "state": 3},
    {"entropy": 1, "spawn_key": [], "pool_size": 4, "state": {"bit_generator": "system"}},
    GENERATORS["MT19937"] | {"state": GENERATORS["MT19937"]["state"] | {"state": {"key": [1] * 624, "pos": 10**6}}},
    GENERATORS["MT19937"] | {"state": GENERATORS["MT19937"]["state"] | {"state": {"key": [1], "pos": 1}}},
    GENERATORS["Philox"] | {"state": GENERATORS["Philox"]["state"] | {"buffer_pos": -(10**6)}},
    GENERATORS["Philox"] | {"state": GENERATORS["Philox"]["state"] | {"state": 10**400}},
]


@pytest.mark.parametrize("seed", SEEDS, ids=range(len(SEEDS)))
def test_a_seed_that_is_none(lines, tmp_path, seed):
    path = tmp_path / "run"
    path.write_bytes(header_with(lines, lambda header: header["run"]["problem"].update(rng=seed)))
    for how in ("minimize", "resume"):
        with pytest.raises(DamagedStore, match=r"seed cannot be used|recorded rng"):
            readers(path)[how]()
    with pytest.raises(ValueError, match="seed"):
        decode_seed(seed)


def test_more_points_asked_for_than_there_are_particles(tmp_path):
    path = tmp_path / "run"
    options = {
        **RUN,
        "rng": 1,
        "workers": ps.Workers(asynchronous=True),
        "store": ps.Store(path, fsync="never", trust=True),
    }
    ps.minimize(fun, BOUNDS, **options)
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2:] = [encode({**decode(lines[2]), "i": 40, "asked": 10**9})]
    path.write_bytes(b"".join(lines))
    with pytest.raises(DamagedStore, match="evaluation 40 is recorded before the run asked for it"):
        ps.minimize(fun, BOUNDS, **options)


@pytest.mark.skipif(sys.platform == "win32", reason="needs special files")
@pytest.mark.parametrize("kind", ["pipe", "zeros", "folder", "link to a pipe"])
def test_what_is_no_file_is_refused_at_once(tmp_path, kind, capsys):
    path = tmp_path / "special"
    if kind == "folder":
        path.mkdir()
    elif kind == "zeros":
        path = "/dev/zero"
    else:
        os.mkfifo(tmp_path / "pipe")
        path.symlink_to(tmp_path / "pipe")
        path = path if kind == "link to a pipe" else tmp_path / "pipe"
    for read in readers(path).values():
        with pytest.raises(StoreError, match="not a regular file"):
            read()
    with pytest.raises((StoreError, OSError), match=r"not a regular file|cannot write the store"):
        ps.minimize(fun, BOUNDS, rng=1, store=path)
    assert cli.main(["watch", str(path)]) == 2
    assert "not a regular file" in capsys.readouterr().err


def test_a_file_of_zeros_that_fills_no_disk(lines, tmp_path, monkeypatch):
    """A sparse file of a terabyte, alone and behind good records."""
    path = tmp_path / "run"
    monkeypatch.setattr(log, "_LONGEST", 2**20)  # so that the test is quick
    for content in (b"", b"".join(lines)):
        with open(path, "wb") as file:
            file.write(content)
            file.truncate(2**40)
        for read in readers(path).values():
            with pytest.raises(StoreError, match=r"damaged in line|not a paoswarm store"):
                read()
        assert path.stat().st_size == 2**40
