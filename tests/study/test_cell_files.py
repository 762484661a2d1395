"""Runs on disk: they come back to the last bit, damage is noticed, other settings are refused, names do no harm."""

import json
import os
import re
import shutil
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from helpers import Counting, Moving, assert_same_results, own_problem, random_search, small

import paoswarm as ps
from paoswarm.study import results as cell_files
from paoswarm.study import study as study_module
from paoswarm.study.results import CellFiles, CellRuns, DamagedFile, Key, OtherStudy

KEY = Key("sphere", 2, "PAO")
DESCRIPTION = {"version": "1", "runs": 4, "hyperparameters": "PAO(dt=1.0)", "seed": 3}
RUNS = CellRuns(
    np.array([10, 20, 25]),
    np.array([[np.inf, 1.0, 0.1], [np.inf, np.inf, np.inf], [5e-324, 0.0, -0.0], [np.pi, 1 / 3, -np.inf]]),
    np.array([0.0, -1e300, 1e-300, 1 / 7]),
)


@pytest.fixture
def files(tmp_path):
    """The files of a study, with one cell."""
    made = CellFiles(tmp_path)
    made.write(KEY, DESCRIPTION, RUNS)
    return made


def same_runs(one, other):
    """To the last bit, the sign of zero included."""
    return all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(one, other, strict=True)
    )


def snapshot(folder):
    """What every file holds and when it was written."""
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


# Round trips


def test_runs_come_back_to_the_last_bit(files):
    assert same_runs(files.read(KEY, DESCRIPTION), RUNS)


def test_a_cell_without_a_file_is_none(files):
    assert files.read(KEY._replace(dim=3), DESCRIPTION) is None


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (7, 1), (30, 101)])
def test_any_number_of_runs_and_steps(shape, tmp_path):
    rng = np.random.default_rng(1)
    runs = CellRuns(np.arange(1, shape[1] + 1) * 50, rng.normal(size=shape), rng.normal(size=shape[0]))
    files = CellFiles(tmp_path)
    files.write(KEY, DESCRIPTION, runs)
    assert same_runs(files.read(KEY, DESCRIPTION), runs)


def test_other_programs_can_read_the_file(files):
    """As its docstring says: run, evaluations, best, minimum, one row per run and step."""
    table = pq.read_table(files.path(KEY))
    assert table.column_names == ["run", "evaluations", "best", "minimum"]
    rows = [tuple(row.values()) for row in table.to_pylist()]
    assert rows == [
        (run, int(RUNS.evaluations[step]), RUNS.best[run, step], RUNS.minimum[run])
        for run in range(4)
        for step in range(3)
    ]
    assert json.loads(table.schema.metadata[b"paoswarm"])["description"] == DESCRIPTION


def test_the_files_of_a_study_hold_its_errors(tmp_path):
    """The columns of a real study mean what they say: best minus minimum is the error of that run at that step."""
    results = small(problems=[Moving], dims=[2]).run(tmp_path)
    for method in ("PAO", "PSO"):
        rows = pq.read_table(tmp_path / "runs" / "moving-2d" / f"{method}.parquet").to_pylist()
        trace = results.trace("moving", 2, method)
        assert len(rows) == trace.error.size
        for row in rows:
            step = trace.evaluations.tolist().index(row["evaluations"])
            assert row["minimum"] == 100.0 * row["run"]
            assert row["best"] - row["minimum"] == trace.error[row["run"], step]


def test_a_description_has_all_settings_that_determine_the_numbers(tmp_path):
    small(dims=[2], seed=4).run(tmp_path)
    kept = json.loads(pq.read_schema(tmp_path / "runs" / "sphere-2d" / "PSO.parquet").metadata[b"paoswarm"])
    said = kept["description"]
    assert said["version"] == ps.__version__
    assert (said["problem"], said["dim"], said["method"], said["init"]) == ("sphere", 2, "PSO", "random")
    assert (said["runs"], said["population"], said["budget"], said["seed"]) == (3, 8, 48, 4)
    assert "inertia=" in said["hyperparameters"]


# Damage


def test_no_byte_can_be_changed_unnoticed(files):
    """Either it is noticed, or it changes neither the numbers nor the description."""
    path = files.path(KEY)
    sound = path.read_bytes()
    rng = np.random.default_rng(1)
    noticed = 0
    places = rng.choice(len(sound), 400, replace=False)
    for place in places:
        changed = bytearray(sound)
        changed[place] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        try:
            got = files.read(KEY, DESCRIPTION)
        except DamagedFile as damage:
            assert str(path) in str(damage)  # noqa: PT017 (an answer among others)
            noticed += 1
        else:
            assert same_runs(got, RUNS), f"byte {place}"
    assert noticed > len(places) / 3  # many bytes are padding and statistics


def test_numbers_of_another_type_are_noticed(files):
    """The same bytes under another name: a changed type is a changed number."""
    path = files.path(KEY)
    table = pq.read_table(path)
    for name, type_ in (("evaluations", pa.duration("s")), ("evaluations", pa.float64()), ("best", pa.int64())):
        place = table.column_names.index(name)
        bits = pa.Array.from_buffers(type_, len(table), table[name].combine_chunks().buffers())
        pq.write_table(table.set_column(place, name, bits), path)
        with pytest.raises(DamagedFile):
            files.read(KEY, DESCRIPTION)


def test_a_changed_number_is_noticed(files):
    """Not only broken files: one with another value in it, written by a program that knows Parquet."""
    path = files.path(KEY)
    table = pq.read_table(path)
    best = table["best"].to_numpy().copy()
    best[1] = np.nextafter(best[1], 2)
    pq.write_table(table.set_column(2, "best", pa.array(best)), path)
    with pytest.raises(DamagedFile, match="checksum"):
        files.read(KEY, DESCRIPTION)


def test_a_changed_description_is_noticed(files):
    path = files.path(KEY)
    table = pq.read_table(path)
    text = table.schema.metadata[b"paoswarm"].replace(b'"runs": 4', b'"runs": 5')
    pq.write_table(table.replace_schema_metadata({b"paoswarm": text}), path)
    with pytest.raises(DamagedFile, match="checksum"):
        files.read(KEY, DESCRIPTION)


def truncated(sound):
    return sound[: len(sound) // 2]


def foreign(sound):
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.table({"run": [0, 1], "evaluations": [1, 2], "best": [0.0, 1.0], "minimum": [0.0, 0.0]}), buffer)
    return buffer.getvalue().to_pybytes()


BROKEN = {
    "truncated": truncated,
    "without its last byte": lambda sound: sound[:-1],
    "empty": lambda sound: b"",
    "foreign": foreign,
    "text": lambda sound: "PAR1 is no ¢harm PAR1".encode(),
    "zeros": lambda sound: bytes(len(sound)),
}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_only_the_damaged_cell_is_run_again_and_a_warning_says_so(change, tmp_path):
    study = small(dims=[2])
    before = study.run(tmp_path)
    path = CellFiles(tmp_path).path(Key("sphere", 2, "PSO"))
    sound = path.read_bytes()
    path.write_bytes(change(sound))
    others = snapshot(tmp_path)
    others.pop(path)
    with pytest.warns(RuntimeWarning, match=rf"{re.escape(str(path))} is damaged \(.*\); .*again") as said:
        after = study.run(tmp_path)
    assert len(said) == 1
    assert_same_results(before, after)
    now = snapshot(tmp_path)
    assert now.pop(path)[0] == sound
    assert now == others


def test_a_damaged_cell_is_run_again_by_a_worker_too(tmp_path):
    study = small(dims=[2])
    before = study.run(tmp_path)
    for method in ("PAO", "PSO"):
        CellFiles(tmp_path).path(Key("sphere", 2, method)).write_bytes(b"")
    with pytest.warns(RuntimeWarning, match="is damaged") as said:
        assert_same_results(before, study.run(tmp_path, workers=2))
    assert sum(issubclass(warning.category, RuntimeWarning) for warning in said) == 2  # Python 3.12 warns of forks


# Other settings


OTHER = {
    "runs": {"runs": 4},
    "seed": {"seed": 2},
    "budget": {"generations": 6},
    "budget per unknown": {"evaluations_per_unknown": 20},
    "population": {"population": 16, "generations": 2},  # the same budget
    "init": {"init": "sobol"},
    "hyperparameters": {"methods": {"it": ps.PAO(mass=1.25)}},
    "hyperparameters of another method": {"methods": {"it": ps.classic.PSO()}},
    "hyperparameters of an adapter": {"methods": {"it": random_search}},
    "probe": {"problems": [own_problem(lambda x: (x**2).sum(axis=-1))]},
    "probe of another box": {"problems": [own_problem(half_width=2.0)]},
    "probe|minimum": {"problems": [own_problem(minimum=-1.0)]},
}


@pytest.mark.parametrize(("what", "changes"), OTHER.items(), ids=OTHER)
def test_runs_with_other_settings_are_refused_and_left_unchanged(what, changes, tmp_path):
    base = {"problems": [own_problem()], "methods": {"it": ps.PAO()}, "dims": [2]}
    small(**base).run(tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(OtherStudy, match=rf"it\.parquet holds runs with ({what.split()[0]}) = .*choose another folder"):
        small(**(base | changes)).run(tmp_path)
    assert snapshot(tmp_path) == before


def test_runs_of_another_version_are_refused(tmp_path, monkeypatch):
    small().run(tmp_path)
    before = snapshot(tmp_path)
    monkeypatch.setattr(study_module, "version", lambda name: "99.0")
    with pytest.raises(
        OtherStudy, match=f"holds runs with version = '{ps.__version__}', but this study has version = '99.0'"
    ):
        small().run(tmp_path)
    assert snapshot(tmp_path) == before


def test_another_instance_than_the_first_is_another_problem(tmp_path):
    class Later(Moving):
        def __call__(self, x):
            return super().__call__(x) + (0.5 if self.number == 2 else 0.0)

    small(problems=[Moving], dims=[2]).run(tmp_path)
    with pytest.raises(OtherStudy):
        small(problems=[Later], dims=[2]).run(tmp_path)


def test_settings_that_do_not_affect_the_numbers_may_change(tmp_path):
    """Title, groups, reference, and more methods, problems and dimensions beside those that are there."""
    small(dims=[2]).run(tmp_path)
    kept = snapshot(tmp_path)
    more = small(
        title="More",
        methods={"DE": ps.classic.DE(), "PAO": ps.PAO(), "PSO": ps.classic.PSO()},
        problems=["ackley", "sphere", "rastrigin-shifted"],
        reference="PSO",
    )
    assert len(more.run(tmp_path).traces) == 18
    assert snapshot(tmp_path).items() >= kept.items()


def test_a_finished_study_evaluates_nothing_but_three_points_for_every_cell(tmp_path):
    fun = Counting()
    study = small(problems=[own_problem(fun)], dims=[2])
    first = study.run(tmp_path)
    spent = len(fun.points)
    assert_same_results(first, study.run(tmp_path))
    assert len(fun.points) - spent == 3 * 2


# Folders


@pytest.mark.parametrize("inside", ["", "deeper/still"])
def test_a_folder_that_cannot_be_written_is_refused_before_the_first_run(inside, tmp_path):
    (tmp_path / "file").write_text("in the way")
    fun = Counting()
    folder = tmp_path / "file" / inside
    with pytest.raises(OSError, match=f"cannot write .*{re.escape(str(folder))}: .*another folder"):
        small(problems=[own_problem(fun)]).run(folder)
    assert fun.points == []
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_folder_without_room_is_refused_before_the_first_run(tmp_path, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    fun = Counting()
    with pytest.raises(OSError, match=r"cannot write .*: No space left on device; choose another folder"):
        small(problems=[own_problem(fun)]).run(tmp_path)
    assert fun.points == []


def test_a_write_that_fails_leaves_nothing_behind(files, monkeypatch):
    def full(*args, **options):
        raise OSError(28, "No space left on device")

    before = snapshot(files.folder)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        files.write(KEY, DESCRIPTION, RUNS)
    with pytest.raises(OSError, match="No space left"):
        files.write(KEY._replace(method="PSO"), DESCRIPTION, RUNS)
    assert snapshot(files.folder) == before


def test_a_new_folder_is_made_with_its_parents(tmp_path):
    small(dims=[2]).run(tmp_path / "a" / "b")
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} == {"runs"}
    assert len(list((tmp_path / "a" / "b").rglob("*.parquet"))) == 4


def test_old_drafts_of_killed_studies_are_removed_and_those_of_others_left(tmp_path):
    files = CellFiles(tmp_path)
    files.open()
    files.write(KEY, DESCRIPTION, RUNS)
    path = files.path(KEY)
    old, young = (path.with_name(f".{path.name}.{pid}.tmp") for pid in (999999998, os.getppid()))
    for draft in (old, young):
        draft.write_bytes(b"half of it")
    files.write(KEY, DESCRIPTION, RUNS)
    assert {one.name for one in path.parent.iterdir()} == {path.name, young.name}
    assert same_runs(files.read(KEY, DESCRIPTION), RUNS)


def test_runs_can_be_moved_to_another_folder(tmp_path):
    first = small().run(tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there")
    kept = snapshot(tmp_path / "there")
    assert_same_results(first, small().run(tmp_path / "there"))
    assert snapshot(tmp_path / "there") == kept


def test_without_pyarrow_the_extra_is_named_before_the_first_run(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    fun = Counting()
    with pytest.raises(ImportError, match=r"pip install 'paoswarm\[study\]'"):
        small(problems=[own_problem(fun)]).run(tmp_path)
    assert fun.points == []


# Names

ODD = [
    "../../etc/x",
    "..",
    ".",
    "a/b",
    "a\\b",
    "a b",
    "a_b",
    "a  b",
    "a:b",
    "A",
    "a",
    "a ",
    " a",
    "a.",
    "CON",
    "nul",
    "ä€",
    "ö€",
    "PAO (1)",
    "PAO (2)",
    "PAO [1]",
    "x" * 300,
    "x" * 299 + "y",
    "\n",
    "x\0y",
    "-rf",
    "*",
    "?",
]


def test_odd_names_neither_collide_nor_leave_the_folder(tmp_path):
    files = CellFiles(tmp_path)
    keys = [Key("sphere", 2, name) for name in ODD] + [Key(name, 2, "PAO") for name in ODD]
    paths = [files.path(key) for key in keys]
    assert len(set(paths)) == len(keys)
    for path in paths:
        inside = path.relative_to(tmp_path / "runs")
        assert len(inside.parts) == 2
        assert ".." not in inside.parts
        for part in inside.parts:
            assert re.fullmatch(r"[\w.-]+", part, re.ASCII), part
            assert len(part) < 100


def test_a_name_that_looks_like_a_safe_one_does_not_collide_with_it(tmp_path):
    files = CellFiles(tmp_path)
    safe = files.path(Key("sphere", 2, "a b")).stem
    assert files.path(Key("sphere", 2, safe)) != files.path(Key("sphere", 2, "a b"))


def test_studies_with_odd_names_are_kept_and_found_again(tmp_path):
    folder = tmp_path / "in" / "here"
    names = [name for name in ODD if name.strip()]
    methods = {name: ps.PAO(mass=1.0 + 0.01 * number) for number, name in enumerate(names)}
    study = small(
        methods=methods, problems=[own_problem(name="../../a problem/of mine")], dims=[1], runs=1, generations=1
    )
    first = study.run(folder)
    kept = snapshot(tmp_path)
    assert len(kept) == len(names)
    assert all(folder / "runs" in path.parents for path in kept)
    assert_same_results(first, study.run(folder))
    assert snapshot(tmp_path) == kept


def test_two_studies_share_a_folder_as_long_as_they_agree(tmp_path):
    one = small(methods={"PAO": ps.PAO()}).run(tmp_path)
    both = small().run(tmp_path)
    assert_same_results(
        one,
        replace(
            both,
            methods=one.methods,
            groups=one.groups,
            descriptions=one.descriptions,
            traces={k: t for k, t in both.traces.items() if k.method == "PAO"},
        ),
    )


# Crafted files


def crafted(files, columns, description=DESCRIPTION, sha256=None):
    """A file with the right checksum for these columns."""
    kept = {"description": description, "sha256": sha256 or cell_files._digest(columns, description)}
    table = pa.table(columns).replace_schema_metadata({b"paoswarm": json.dumps(kept, sort_keys=True).encode()})
    pq.write_table(table, files.path(KEY), compression="zstd")


def columns_of(run, evaluations, best, minimum):
    kinds = (np.int32, np.int64, np.float64, np.float64)
    given = zip(("run", "evaluations", "best", "minimum"), (run, evaluations, best, minimum), kinds, strict=True)
    return {name: np.array(values, dtype=kind) for name, values, kind in given}


@pytest.mark.parametrize(
    "columns",
    [
        columns_of([], [], [], []),
        columns_of([0, 0, 1], [1, 2, 1], [1, 2, 3], [0, 0, 0]),
        columns_of([1, 0], [1, 1], [1, 2], [0, 0]),
        columns_of([-5, -5], [1, 1], [1, 2], [0, 0]),
        columns_of([0, 2**31 - 1], [1, 1], [1, 2], [0, 0]),
        columns_of([0, 0, 1, 1], [1, 2, 1, 3], [1, 2, 3, 4], [0, 0, 0, 0]),
        columns_of([0, 0, 1, 1], [1, 2, 1, 2], [1, 2, 3, 4], [0, 1, 0, 0]),
    ],
)
def test_a_crafted_file_with_the_right_checksum_is_damaged(files, columns):
    crafted(files, columns)
    with pytest.raises(DamagedFile, match="is damaged"):
        files.read(KEY, DESCRIPTION)


def test_a_description_that_is_none_is_damaged(files):
    crafted(files, columns_of([0], [1], [1], [0]), description=[1])
    with pytest.raises(DamagedFile, match="is damaged"):
        files.read(KEY, DESCRIPTION)


def test_a_small_file_that_unpacks_to_millions_of_rows_is_damaged(files):
    rows = 2_000_000
    crafted(files, columns_of(np.zeros(rows), np.arange(rows), np.zeros(rows), np.zeros(rows)), sha256="x")
    with pytest.raises(DamagedFile, match="more than 4000 rows"):
        files.read(KEY, DESCRIPTION | {"budget": 1000})


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_in_the_place_of_a_file_is_refused_at_once(files):
    files.path(KEY).unlink()
    os.mkfifo(files.path(KEY))
    with pytest.raises(OtherStudy, match="not a regular file"):
        files.read(KEY, DESCRIPTION)
