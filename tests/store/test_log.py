"""The file itself: cut anywhere, bits flipped, not a store, of a later version, locked, on a full disk."""

import errno
import json
import os
import random
import subprocess
import sys
import threading

import numpy as np
import pytest

import paoswarm as ps
from paoswarm.store import log as log_module
from paoswarm.store.journal import Journal
from paoswarm.store.log import DamagedStore, Log, Reader, StoreError, StoreInUse, decode, encode
from paoswarm.store.store import RecordedRun, Store

RUN = RecordedRun("minimize", {"rng": {"entropy": 1, "spawn_key": [], "pool_size": 4}}, {"expected": 9}, {"workers": 1})
RNG = np.random.default_rng(1)
X = RNG.normal(size=(9, 2)) * 10.0 ** RNG.integers(-300, 300, size=(9, 2))
ORDER = [0, 1, 2, 4, 6, 3, 5, 7, 8]  # in which they were finished
F = np.array([1 / 3, np.nan, np.inf, -np.inf, -0.0, 5e-324, 1e308, 7.0, np.nan])


def written(path):
    """A small store with every kind of record. Evaluations are recorded singly, in pairs, and out of order."""
    with Journal(Store(path), RUN) as journal:
        journal.recall(X)
        for rows in ([0], [1, 2], [4, 6], [3, 5], [7, 8]):
            why = {place: 'raised ValueError: \u2200 "x"\n' for place, row in enumerate(rows) if np.isnan(F[row])}
            journal.append(np.array(rows), X[rows], F[rows], why)
        journal.end("MAXITER", "done", final=True)
    return path.read_bytes()


def same(one, other):
    return one.tobytes() == other.tobytes()


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "run.paoswarm"
    written(path)
    return path


def test_what_is_read_is_what_was_written_to_the_last_bit(store):
    x, f = Store(store).read()
    assert same(x, X)
    assert same(np.nan_to_num(f), np.nan_to_num(F))


def test_the_file_is_json_lines_that_other_programs_read(store):
    pandas = pytest.importorskip("pandas")
    lines = [json.loads(line) for line in store.read_text().splitlines()]
    assert lines[0]["paoswarm"] == "evaluations"
    assert [line["i"] for line in lines if "f" in line] == [0, 1, [4, 6], [3, 5], 7]
    assert len(pandas.read_json(store, lines=True).dropna(subset="f")) == 5


def test_numbers_that_json_does_not_have_are_refused_by_the_encoder():
    with pytest.raises(ValueError, match="JSON"):
        encode({"f": [float("nan")]})
    assert decode(encode({"a": [1.5, None, "inf"]}))["a"] == [1.5, None, "inf"]


def test_a_file_cut_at_any_byte_opens_to_a_true_prefix_and_continues(tmp_path):
    data = written(tmp_path / "whole.paoswarm")
    path = tmp_path / "cut.paoswarm"
    lines, complete = data.splitlines(keepends=True), 0
    for n in range(len(data) + 1):
        complete += n > 0 and data[n - 1 : n] == b"\n"
        true = [decode(line) for line in lines[:complete]]
        path.unlink(missing_ok=True)  # on some file systems overwriting a file waits for the disk
        path.write_bytes(data[:n])
        reader = Reader(path)
        assert (reader.header() is None) == (complete == 0)
        assert list(reader.records()) == true
        if n % 5 == 0 or n == len(data):  # writing continues after the last good record
            with Journal(Store(path, fsync="never"), RUN) as journal:
                expected = ORDER[: sum(len(record["f"]) for record in true if "f" in record)]
                assert np.flatnonzero(journal._contents.known).tolist() == sorted(expected)
                assert same(journal._contents.x[expected], X[expected]) or not expected
            again = list(Reader(path).records())
            assert again[: len(true)] == true
            assert (len(again) == len(true)) == (n == len(data))  # a finished run is left as it is


def test_flipped_bits_are_refused_or_give_a_true_prefix(tmp_path):
    data = written(tmp_path / "whole.paoswarm")
    rng = random.Random(3)
    refused = 0
    for _ in range(800):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path = tmp_path / "flipped.paoswarm"
        path.unlink(missing_ok=True)
        path.write_bytes(changed)
        try:
            with Journal(Store(path, fsync="never"), RUN) as journal:
                contents = journal._contents
        except StoreError:
            refused += 1
            assert path.read_bytes() == changed
            continue
        expected = sorted(ORDER[: int(contents.known.sum())])
        assert np.flatnonzero(contents.known).tolist() == expected
        assert same(contents.x[contents.known], X[expected])
        assert same(np.nan_to_num(contents.f[contents.known]), np.nan_to_num(F[expected]))
    assert refused > 500


TORN = b'{"i":9,"t":1794871810.1,"x":[[1.25' + b"\0" * 512 + b'5]],"f":[1.0],"crc":"00000000"}\n'


@pytest.mark.parametrize("tail", [b"\0" * 512, b"\0", b'{"i":9,"t":1', b"{", b'{"i":9\0\0\0', TORN])
def test_an_unfinished_record_is_cut_off_with_a_warning(store, tail, caplog):
    data = store.read_bytes()
    store.write_bytes(data + tail)
    with Journal(Store(store), RUN):
        pass
    assert store.read_bytes() == data
    assert f"{len(tail)} byte" in caplog.text


GOOD = encode({"i": 9, "t": 1.0, "x": [[1.0, 2.0]], "f": [3.0]})
EDITED = GOOD.replace(b"3.0", b"3.5")


@pytest.mark.parametrize(
    "tail",
    [
        EDITED,
        EDITED * 3,
        EDITED[:-1] + EDITED[:-1],  # the newline is lost
        EDITED + b'{"i":10,"t":1',
        EDITED.replace(b"1.0", b"1\0\0"),  # a few zeros are no page
        TORN + TORN,
        b"garbage",
        b"garbage\n",
    ],
    ids=["edited", "thrice", "joined", "then unfinished", "few zeros", "torn twice", "garbage", "garbage line"],
)
def test_what_no_crash_leaves_is_refused_and_not_changed(store, tail):
    """A crash leaves one unfinished record. Edited records at the end were good, and may be repaired."""
    lines = store.read_bytes().count(b"\n")
    damaged = store.read_bytes() + tail
    store.write_bytes(damaged)
    for reading in (lambda: Journal(Store(store), RUN), Store(store).read, Store(store).run):
        with pytest.raises(DamagedStore, match=f"damaged in line {lines + 1}: "):
            reading()
    assert store.read_bytes() == damaged


def test_an_edited_unfinished_run_loses_nothing(tmp_path):
    """All records from line 15 on were edited: the run had been read as 13 of 56 evaluations, and the rest was cut."""
    path, calls = tmp_path / "run", []

    def fun(x):
        calls.append(x)
        if len(calls) == 57:
            raise KeyboardInterrupt
        return float((x**2).sum())

    options = {"method": ps.PAO(), "n_particles": 20, "maxiter": 20, "rng": 1, "store": Store(path, fsync="never")}
    ps.minimize(fun, [(-1, 1)] * 2, **options)
    lines = path.read_bytes().splitlines(keepends=True)
    edited = b"".join([*lines[:14], *(line.replace(b'"x"', b'"y"') for line in lines[14:56])])
    path.write_bytes(edited)
    with pytest.raises(DamagedStore, match=r"line 15.*head -n 14"):
        ps.minimize(fun, [(-1, 1)] * 2, **options)
    assert path.read_bytes() == edited
    assert len(calls) == 57


@pytest.mark.parametrize("length", [1, 10, 24, 30, 200])
@pytest.mark.parametrize("fill", [b"", b"\0", b"\0" * 500, b"\0" * 500 + b"\n"])
def test_a_header_that_was_torn_by_a_power_failure_is_no_obstacle(tmp_path, length, fill):
    path = tmp_path / "run"
    header = written(path).splitlines(keepends=True)[0]
    for torn in (header[:length] + fill, b"\0" * length + fill):
        path.write_bytes(torn)
        with Journal(Store(path), RUN) as journal:
            assert not journal.resumed
        assert Store(path).run() == RUN


def test_a_torn_header_before_records_is_refused(store):
    data = store.read_bytes()
    for torn in (b"\0" * 100 + data[100:], data[:40] + b"\0" * 100 + data[140:], data.replace(b"\n", b" ")):
        store.write_bytes(torn)
        with pytest.raises(StoreError, match=r"line 1:|not a paoswarm store"):
            Journal(Store(store), RUN)
        assert store.read_bytes() == torn


def test_a_line_that_is_missing_or_doubled_is_noticed(store):
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(b"".join([*lines[:4], lines[3], *lines[4:]]))
    with pytest.raises(DamagedStore, match="twice"):
        Store(store).read()
    store.write_bytes(b"".join(lines[:2] + lines[3:]))
    with Journal(Store(store), RUN) as journal, pytest.raises(StoreError, match="evaluation 0 is missing"):
        journal.recall(X[:4])


def test_damage_before_good_records_is_an_error_that_changes_nothing(store):
    data = store.read_bytes()
    middle = len(data) // 2
    broken = data[:middle] + b"?" + data[middle + 1 :]
    store.write_bytes(broken)
    for reading in (lambda: Journal(Store(store), RUN), Store(store).read):
        with pytest.raises(DamagedStore, match=r"damaged in line \d+"):
            reading()
    assert store.read_bytes() == broken


@pytest.mark.parametrize("content", [b"x,y\n1,2\n", b'{"paoswarm":"other"}\n', b"\x89PNG\r\n", b"\n"])
def test_a_file_of_another_program_is_not_changed(tmp_path, content):
    path = tmp_path / "precious"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="not a paoswarm store"):
        ps.minimize(lambda x: 0.0, [(0, 1)], store=path)
    assert path.read_bytes() == content


def test_a_file_of_a_later_version_is_not_changed(store):
    data = store.read_bytes().replace(b'"schema":1', b'"schema":2', 1)
    store.write_bytes(data)
    with pytest.raises(StoreError, match=r"format 2 .*update paoswarm"):
        Journal(Store(store), RUN)
    assert store.read_bytes() == data


def test_an_empty_file_is_a_new_store(tmp_path):
    path = tmp_path / "empty"
    path.touch()
    with pytest.raises(StoreError, match="is empty"):
        Store(path).read()
    with Journal(Store(path), RUN) as journal:
        assert not journal._contents.known.any()


def test_a_missing_folder_a_folder_and_a_device_are_errors(tmp_path):
    for path in (tmp_path / "nowhere" / "run", tmp_path):
        with pytest.raises(OSError, match="cannot write the store"):
            Log(path)
    if os.path.exists("/dev/full"):
        with pytest.raises(StoreError, match="not a regular file"):
            Log("/dev/full")


def test_a_store_that_may_not_be_written_is_an_error(store, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(log_module.os, "open", refuse)  # the tests may be run by root
    with pytest.raises(OSError, match=r"cannot write the store .*: Permission denied"):
        Log(store)


def test_bad_stores_are_refused():
    with pytest.raises(TypeError, match="name of a file"):
        ps.minimize(lambda x: 0.0, [(0, 1)], store=3)
    with pytest.raises(ValueError, match="'always' or 'never'"):
        Store("run", fsync="sometimes")


@pytest.mark.parametrize("room", [0, 1, 100])
def test_on_a_full_disk_the_file_stays_as_it_was(store, monkeypatch, room):
    data = store.read_bytes()
    log = Log(store)
    real, left = os.write, [room]

    def almost_full(fd, text):
        if left[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        text = bytes(text)[: left[0]]
        left[0] -= len(text)
        return real(fd, text)

    monkeypatch.setattr(log_module.os, "write", almost_full)
    with pytest.raises(OSError, match=r"cannot write .*No space left on device"):
        log.append({"i": 9, "x": [[1.0] * 40], "f": [1.0]})
    monkeypatch.undo()
    assert store.read_bytes() == data
    log.append({"i": 9})  # there is room again
    log.close()
    assert list(Reader(store).records())[-1]["i"] == 9


LIMITED = """
import resource, sys
import paoswarm as ps
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
calls = 0
def fun(x):
    global calls
    calls += 1
    return float((x**2).sum())
try:
    ps.minimize(fun, [(-1, 1)] * 3, method=ps.PAO(), n_particles=10, maxiter=4, rng=1, store=sys.argv[1])
except OSError as error:
    print(calls, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of file sizes")
def test_a_run_whose_disk_is_full_goes_on_when_there_is_room(tmp_path):
    path = tmp_path / "run.paoswarm"
    output = subprocess.run([sys.executable, "-c", LIMITED, path], capture_output=True, text=True, check=True).stdout
    made = int(output.split()[0])
    assert "cannot write" in output
    assert len(Store(path).read()[1]) == made - 1
    calls = []

    def fun(x):
        calls.append(x)
        return float((x**2).sum())

    options = {"method": ps.PAO(), "n_particles": 10, "maxiter": 4, "rng": 1}
    result = ps.minimize(fun, [(-1, 1)] * 3, store=Store(path, trust=True), **options)
    assert result.fun == ps.minimize(lambda x: float((x**2).sum()), [(-1, 1)] * 3, **options).fun
    assert len(calls) == result.nfev - (made - 1)


HOLDING = """
import sys, time
from paoswarm.store.journal import Journal
from paoswarm.store.store import RecordedRun, Store
run = Store(sys.argv[1]).run()
with Journal(Store(sys.argv[1]), run):
    print("mine", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
def test_the_error_for_a_second_writer_names_the_first(store):
    store.write_bytes(b"".join(store.read_bytes().splitlines(keepends=True)[:-1]))  # not finished
    first = subprocess.Popen(
        [sys.executable, "-c", HOLDING, store], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert first.stdout.readline() == "mine\n"
        data = store.read_bytes()
        with pytest.raises(StoreInUse, match=f"process {first.pid} on"):
            Journal(Store(store), RUN)
        assert store.read_bytes() == data
        assert len(Store(store).read()[1]) == 9  # reading needs no lock
    finally:
        first.communicate("")
    Journal(Store(store), RUN).__exit__(None, None, None)


@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
def test_a_lock_that_is_released_soon_is_waited_for(store, monkeypatch):
    """A killed process keeps its lock for a few milliseconds."""
    monkeypatch.setattr(log_module, "_PATIENCE", 600)
    first, is_released = Log(store), threading.Event()
    timer = threading.Timer(0.05, lambda: (is_released.set(), first.close()))
    timer.start()
    with Journal(Store(store), RUN):
        assert is_released.is_set()  # it was opened after the lock was released, without an error
    timer.join()


def test_two_runs_of_one_process_cannot_share_a_store(store):
    with Journal(Store(store), RUN), pytest.raises(StoreInUse):
        Journal(Store(store), RUN)


@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
def test_a_file_system_without_locks_gives_a_warning(store, monkeypatch, caplog):
    import fcntl

    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with Journal(Store(store), RUN):
        assert "cannot be locked" in caplog.text
