"""An external program as the objective: values in, a number out, failures with their reason, nothing left behind."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from waiting import until

import paoswarm as ps
from paoswarm.evaluate.program import _own_prefix, _remove_left_over, filled, names_in
from paoswarm.evaluate.program_output import CommandFailed, read_value, tail
from paoswarm.space.names import NamedArray
from paoswarm.store.fingerprint import fingerprint

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="programs here are shell scripts"),
    pytest.mark.filterwarnings("ignore:the function raised an exception at"),
]


ONE_EACH = {"method": "PAO", "init": [[1], [2], [3], [4]], "maxiter": 0, "rng": 1}  # of four whole numbers


def script(folder, text, name="simulate"):
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def _here(tmp_path, monkeypatch):
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()


def left_over(tmp_path):
    return list((tmp_path / "temporary").iterdir())


# Values


@pytest.mark.parametrize("number", [0.1, 1 / 3, -1e-300, 1.7976931348623157e308, 5e-324, 123456789.123456789, -0.0])
def test_a_number_goes_to_the_program_and_back_to_the_last_bit(number):
    assert ps.Command("echo {x}")({"x": np.float64(number)}).hex() == number.hex()


def test_values_have_the_text_of_their_type():
    given = {"n": np.int64(3), "name": "a b", "flag": True, "x": 0.5}
    assert filled("{n} {n:03d} {name} {flag} {x:.2e}", given) == "3 003 a b True 5.00e-01"


def test_points_without_names_are_numbered():
    assert ps.Command("echo {x1}")(np.array([1.0, 2.0])) == 2.0


def test_only_known_names_are_places():
    text = "{ } {} {x} ${x} {0} {y} {x:z"
    assert names_in(text) == ["x", "y"]
    assert filled(text, {"x": 1}) == "{ } {} 1 ${x} {0} {y} {x:z"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7.0),
        ("cost = -1.5e-3\n\n  \n", -1.5e-3),
        ("a 1\nb 2 of 3", 3.0),
        ("1.0D-03", 1e-3),
        (".5", 0.5),
        ("value 3.", 3.0),
        ("x1 y_2 (4.5)", 4.5),
        ("cost=-2", -2.0),
        ("-Infinity", -np.inf),
        ("cost: -nan", np.nan),
        ("4.5 of version 1.2.3", 4.5),
        ("12 3D", 12.0),
    ],
)
def test_the_last_number_of_the_last_line_is_the_value(text, value):
    np.testing.assert_equal(read_value(text, None, "its output"), value)


def test_an_earlier_number_is_never_taken_for_the_value():
    with pytest.raises(CommandFailed, match=r"last line of its output has no number: 'cost: \*\*\*\*'"):
        read_value("step 12\ncost: ****\n", None, "its output")
    with pytest.raises(CommandFailed, match="its output is empty"):
        read_value("\n \n", None, "its output")


def test_a_pattern_finds_the_value():
    text = "cost: 1\ncost: 2.5D1 kg\ntime: 3\n"
    assert read_value(text, r"^cost: (\S+)", "it") == 25.0
    assert read_value(text, "cost", "it") == 25.0
    assert read_value(text, "^time:", "it") == 3.0
    with pytest.raises(CommandFailed, match=r"pattern 'mass' is not in it, which ends with '.*time: 3'"):
        read_value(text, "mass", "it")
    with pytest.raises(CommandFailed, match="found 'cost' in it, not a number"):
        read_value(text, "(cost)", "it")
    with pytest.raises(CommandFailed, match=r"found ': \*\*\*' in it, not a number"):  # and not the next line's
        read_value("cost: ***\ntime: 3", "cost", "it")


def test_a_factor_multiplies_the_value():
    assert ps.Command("echo {x}", factor=-0.5)({"x": 3}) == -1.5


def test_further_numbers_are_constraints():
    command = ps.Command("echo stress {x} mass {y} cost 3", also=["stress", "mass"])
    assert command({"x": 1.5, "y": 2}) == (3.0, [1.5, 2.0])
    cost = ps.Command("echo cost {x} stress {x}", pattern="cost", also="stress")
    limit = ps.Returned(1, lb=2.0, ub=np.inf, name="stress")
    result = ps.minimize(cost, {"x": ps.Integer(1, 4)}, constraints=limit, **ONE_EACH)
    assert (result.best, result.feasible) == ({"x": 2}, True)


# Failures


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo 1; echo too hot >&2; exit 3", "exit status 3: too hot"),
        ("echo said on stdout; exit 1", "exit status 1: said on stdout"),
        ("kill -SEGV $$", "killed by SIGSEGV"),
        ("echo nothing here", "has no number: 'nothing here'"),
        ("true", "its output is empty"),
    ],
)
def test_a_failure_has_a_reason(text, reason):
    script(Path(), text)
    with pytest.raises(CommandFailed, match=reason):
        ps.Command("./simulate")({})


def test_a_long_or_wild_output_becomes_a_short_line():
    text = tail("x" * 1000 + "\n\x1b[2J\x07 the end")
    assert len(text) <= 300
    assert text.isprintable()
    assert text.endswith("[2J the end")


def test_failed_points_are_survived_and_explained(tmp_path):
    script(Path(), 'case $1 in 2) echo "no two" >&2; exit 1;; esac; echo $1')
    result = ps.minimize(ps.Command("./simulate {n}"), {"n": ps.Integer(1, 4)}, **ONE_EACH)
    assert result.best == {"n": 1}
    assert result.n_failed == 1
    assert result.failures[0].reason == "raised an error: exit status 1: no two"


def test_a_timeout_kills_the_program_and_what_it_has_started(tmp_path):
    script(Path(), "echo $$ >> pids; if [ $1 = 2 ]; then sleep 60 & echo $! >> pids; sleep 60; fi; echo $1")
    result = ps.minimize(
        ps.Command("./simulate {n}"), {"n": ps.Integer(1, 4)}, workers=ps.Workers(timeout=3.0), **ONE_EACH
    )
    assert (result.best, dict(result.failure_kinds)) == ({"n": 1}, {"timed out": 1})
    for pid in map(int, Path("pids").read_text().split()):
        assert not is_alive(pid)


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_an_interrupt_kills_the_program_and_what_it_has_started(tmp_path):
    script(Path(), "sleep 60 & echo $! > started; sleep 60")
    code = "from paoswarm.evaluate.command import Command; Command('./simulate')({})"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as python:
        while not (Path("started").exists() and Path("started").read_text()):
            assert python.poll() is None
            time.sleep(0.02)
        python.send_signal(signal.SIGINT)
        assert python.wait() != 0
    until(lambda: not is_alive(int(Path("started").read_text())))


WATCHED = """
import os, signal, sys, threading
for number in (signal.SIGHUP, signal.SIGQUIT):  # whoever runs the tests may ignore them
    signal.signal(number, signal.SIG_DFL)
import paoswarm as ps
from paoswarm.evaluate import program

def told(group):
    watch(group)
    os.write(1, b"%d\\n" % group)  # in one piece, whatever other threads print

run = ps.Command("./simulate {n}")
run({"n": 1})
watch, program.watch = program.watch, told
"""


@contextmanager
def running(code):
    """A process that starts programs, and prints the number of each once it is watched; it ends with the test."""
    with subprocess.Popen(
        [sys.executable, "-c", WATCHED + code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as python:
        try:
            yield python
        finally:
            python.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM])
def test_a_program_does_not_outlive_a_process_that_is_killed(number):
    """Nor does what it has started; of two programs in threads, the one that has ended does not matter."""
    script(Path(), "[ $1 = 1 ] && echo 1 && exit; sleep 600 & echo $! > pid; wait")
    code = """
if not (other := os.fork()):  # it must not keep the watcher from its work
    os.execvp("sleep", ["sleep", "600"])
print(other, flush=True)
threading.Thread(target=run, args=[{"n": 2}]).start()
run({"n": 1})
"""
    with running(code) as python:
        other, *groups = (int(python.stdout.readline()) for _ in range(3))
        until(lambda: Path("pid").exists() and Path("pid").read_text())
        python.send_signal(number)
        assert python.wait() == -number
    assert is_alive(other)
    os.kill(other, signal.SIGKILL)
    pids = [*groups, int(Path("pid").read_text())]
    until(lambda: not any(map(is_alive, pids)))


def test_a_forked_process_has_a_watcher_of_its_own():
    """Else the programs of a child would go on until its parent has ended, too."""
    script(Path(), "[ $1 = 1 ] && echo 1 && exit; exec sleep 600")
    code = """
if not (child := os.fork()):
    run({"n": 2})
print("child", child, flush=True)
sys.stdin.read()
"""
    with running(code) as python:
        (_, child), (program,) = sorted((python.stdout.readline().split() for _ in range(2)), key=len, reverse=True)
        os.kill(int(child), signal.SIGKILL)
        until(lambda: not is_alive(int(program)))
        assert python.poll() is None
        python.stdin.close()


# Output


def test_what_a_program_leaves_behind_does_not_keep_its_value():
    script(Path(), "sleep 600 & echo $! >> left; echo 1.5; echo more >&2; exit $1")
    assert ps.Command("./simulate 0")({}) == 1.5
    with pytest.raises(CommandFailed, match="exit status 3: more"):
        ps.Command("./simulate 3")({})
    for left in map(int, Path("left").read_text().split()):
        assert is_alive(left)  # it may be a service that others use
        os.kill(left, signal.SIGKILL)


def test_the_grace_is_for_what_is_written_a_little_later():
    script(Path(), "(while kill -0 $1 2>/dev/null; do :; done; echo 2.5) & exit")  # after the end of its parent
    assert ps.Command("sh -c './simulate $$'")({}) == 2.5


@pytest.mark.parametrize("closed", ["exec >&- 2>&-", "exec 2>&-"])
def test_a_program_that_closes_its_output_is_waited_for(closed):
    script(Path(), f"echo 1.5; {closed}; until [ -e go ]; do sleep 0.02; done; touch gone; exit 4")
    thread = threading.Timer(0.1, Path("go").touch)
    thread.start()
    with pytest.raises(CommandFailed, match="exit status 4"):
        ps.Command("./simulate")({})
    assert Path("gone").exists()
    thread.join()


def test_of_a_long_output_the_end_is_kept(monkeypatch):
    monkeypatch.setattr("paoswarm.evaluate.program.MOST_BYTES", 2**16)
    script(Path(), "yes 'early 1 step 2' | head -c 3000000; echo; [ -z $1 ] || echo cost 3.5")
    tracemalloc.start()
    assert ps.Command("./simulate 1")({}) == 3.5
    assert tracemalloc.get_traced_memory()[1] < 1.5e6  # half of what was written
    tracemalloc.stop()
    assert ps.Command("./simulate 1", pattern="cost")({}) == 3.5
    with pytest.raises(CommandFailed, match=r"'mass' is not in the last \d+ MB of its output"):
        ps.Command("./simulate", pattern="mass")({})
    with pytest.raises(CommandFailed, match="a table must not be longer than the last"):
        ps.Command("./simulate", outputs=["b"], at={"a": [1.0]})({})


def test_a_long_table_behind_a_log_and_in_a_file_is_read(monkeypatch):
    monkeypatch.setattr("paoswarm.evaluate.program.MOST_BYTES", 2**16)
    script(Path(), "yes 'step 2' | head -c 300000; printf '\nTable\na,b\n0,1\n2,3\n'")
    assert ps.Command("./simulate", outputs="b", at={"a": [1.0]}, pattern="Table")({}) == 2.0
    script(Path(), "(echo a,b; seq 0 20000 | sed 's/.*/&,&/') > table")
    assert ps.Command("./simulate", outputs="b", at={"a": [15000.5]}, value_from="table")({}) == 15000.5


# Nothing runs that was not asked for

WILD = ["; touch hit", "$(touch hit)", "`touch hit`", "| touch hit", "a b", "'; touch hit; '", '" && touch hit "', "*"]


@pytest.mark.parametrize("shell", [False, True])
@pytest.mark.parametrize("value", WILD)
def test_a_value_can_do_nothing_but_be_an_argument(value, shell):
    script(Path(), 'printf "%s" "$1" > argument; echo $#')
    count = ps.Command("./simulate {name} x{name}", shell=shell)({"name": value})
    assert count == 2.0
    assert Path("argument").read_text() == value
    assert not Path("hit").exists()


@pytest.mark.parametrize(
    "command",
    [
        "echo '{k}' 7",
        'echo "{k}" 7',
        "echo \\{k} 7",
        "echo `echo {k}` 7",
        'echo "$(echo "{k}")" 7',
        "cat <<END\n{k} 7\nEND",
        "echo 'a' \"b\" 'it is {k}' 7",
    ],
)
def test_a_text_between_quotes_of_a_shell_command_is_refused_but_a_number_is_not(command):
    with pytest.raises(TypeError, match="it is quoted already, or in arithmetic or a comment"):
        ps.Command(command, shell=True)({"k": "$(touch made)"})
    assert not Path("made").exists()
    assert ps.Command(command, shell=True)({"k": -1.5}) == 7.0


def test_quotes_that_have_ended_do_not_matter_to_a_shell_command():
    command = ps.Command("""echo 'it'"'s" \\' {k} | wc -w""", shell=True)
    assert command({"k": "two words"}) == 4.0


@pytest.mark.parametrize(
    "command",
    [
        "echo $(( 1 + {k} )) 1",
        "echo $(( (1 + (2)) + {k} )) 1",
        "echo $(( $(( 1 )) + {k} )) 1",
        "bash -c : && echo $[ 1 + {k} ] 1",
        "x=abc; echo ${x:{k}} 1",
        "[[ {k} -eq 1 ]]; echo 1",
        "(( {k} )); echo 1",
        "echo 1 # {k}",
        "# {k}\necho 1",
        "echo $'it\\'s {k} 1",
    ],
)
def test_a_text_is_refused_where_quotes_mean_nothing(command):
    for value in ("$(touch made)", "`touch made`", "a\ntouch made", "a[$(touch made)]"):
        with pytest.raises(TypeError, match="or in arithmetic or a comment"):
            ps.Command(command, shell=True)({"k": value})
    assert not Path("made").exists()


def test_numbers_count_in_arithmetic_and_texts_are_arguments_beside_variables():
    assert ps.Command("echo $(( 1 + {k} ))", shell=True)({"k": 3}) == 4.0
    assert ps.Command("y=7; echo a#b ${y} {k} | wc -w", shell=True)({"k": "two words"}) == 4.0


def test_a_shell_runs_if_it_is_asked_for():
    assert ps.Command("echo {x} | sed s/1/7/", shell=True)({"x": 1}) == 7.0
    assert ps.Command("y=5; echo ${y} {x} | cut -d ' ' -f 1", shell=True)({"x": 1}) == 5.0
    with pytest.raises(CommandFailed, match="exit status"):
        ps.Command("no_such_program {x}", shell=True)({"x": 1})


# Files


def test_every_run_has_its_own_folder_which_is_removed(tmp_path):
    script(Path(), "ls | wc -l; touch here; pwd > result; echo 0$1 >> result")
    command = ps.Command("./simulate {x}", value_from="result")
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(command, [{"x": i} for i in range(8)])) == list(range(8))
    assert sorted(os.listdir()) == ["simulate"]
    assert left_over(tmp_path) == []


def test_an_old_result_is_never_read():
    script(Path(), "true")
    Path("result").write_text("1")
    with pytest.raises(CommandFailed, match="did not write result"):
        ps.Command("./simulate", value_from="result")({})


def test_templates_are_filled_and_other_braces_stay():
    Path("case.json.in").write_text('{"rate": {rate:.1f}, "more": {"a": {}, "b": "{other}"}}\n')
    script(Path(), "cat case.json; cat plain.txt")
    Path("plain.txt").write_text("{rate}")
    command = ps.Command("./simulate", templates=["case.json.in", "plain.txt"], pattern="(.*)", keep="kept")
    with pytest.raises(CommandFailed, match=r"found '.*' in its output, not a number \(in .*kept/run-"):
        command({"rate": 2.0})
    (folder,) = Path("kept").iterdir()
    assert (folder / "case.json").read_text() == '{"rate": 2.0, "more": {"a": {}, "b": "{other}"}}\n'
    assert (folder / "plain.txt").read_text() == "2.0"
    assert command.names == ["rate", "other"]


def test_a_folder_is_copied_for_every_run():
    Path("case").mkdir()
    Path("case/mesh").write_text("4\n")
    Path("case/run.paoswarm").write_text("a store that grows")
    script(Path("case"), "echo x >> mesh; head -1 mesh", name="inside")
    command = ps.Command("./inside", folder="case")
    before = fingerprint(command)
    for _ in range(2):
        assert command({}) == 4.0
    assert Path("case/mesh").read_text() == "4\n"
    Path("case/run.paoswarm").write_text("a store that has grown")
    assert fingerprint(command).changes(before) == []
    with pytest.raises(CommandFailed, match="has no number: 'mesh'"):  # the last file: the store is not there
        ps.Command("ls", folder="case")({})


def test_folders_of_killed_processes_are_removed(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    places = [tmp_path / "temporary" / f"{_own_prefix()}{pid}-abc" for pid in (ended.pid, os.getpid())]
    for place in places:
        place.mkdir()
    _remove_left_over.__wrapped__(os.getpid())
    assert [place.exists() for place in places] == [False, True]


# As a function like any other


def test_it_can_be_sent_to_workers(tmp_path, monkeypatch):
    script(Path(), "echo $1")
    Path("data.in").write_text("{n}")
    command = ps.Command("./simulate {n}", templates="data.in")
    monkeypatch.chdir(tmp_path)
    again = pickle.loads(pickle.dumps(command))
    assert again({"n": 3}) == 3.0
    assert again.settings == command.settings
    assert ps.Command(**again.settings).settings == command.settings


def test_it_samples_with_names_and_fixed_values():
    command = ps.Command("echo {name} {gain} {level}")
    point = NamedArray.of(np.array([2.5]), {"level": 0}, {"gain": 3.0, "name": "a"})
    assert command(point) == 2.5


def test_its_fingerprint_sees_the_program_the_templates_and_the_folder():
    script(Path(), "echo 1")
    Path("data.in").write_text("{n}")
    Path("case").mkdir()
    Path("case/mesh").write_text("4")

    def parts():
        return fingerprint(ps.Command("sh simulate {n}", templates="data.in", folder="case"))

    before = parts()
    assert before.unsure  # a program may read anything
    assert parts().changes(before) == []
    script(Path(), "echo 2")
    assert parts().changes(before) == ["file simulate"]
    script(Path(), "echo 1")
    Path("case/mesh").write_text("5")
    assert parts().changes(before) == ["folder case"]
    Path("case/mesh").write_text("4")
    Path("data.in").write_text("{n} ")
    assert parts().changes(before) == ["template of data"]
    other = fingerprint(ps.Command("sh simulate {n} 1", templates="data.in", folder="case", factor=2))
    assert other.changes(parts()) == ["command", "the reading of its value"]


def test_it_is_seen_inside_other_functions():
    script(Path(), "echo 1")
    command = ps.Command("./simulate")
    before = fingerprint(lambda x: command(x) + 1)
    assert before.unsure
    script(Path(), "echo 2")
    assert fingerprint(lambda x: command(x) + 1).changes(before)


def test_a_stored_run_notices_another_program(tmp_path):
    script(Path(), "echo $1")
    run = {"bounds": {"n": ps.Integer(1, 4)}, "store": tmp_path / "run", **ONE_EACH}
    ps.minimize(ps.Command("./simulate {n}"), **run)
    script(Path(), "echo $1 | sed s/1/9/")
    with pytest.raises(ps.errors.OtherRun, match=r"changed since then: file \./simulate"):
        ps.minimize(ps.Command("./simulate {n}"), **run)


# Mistakes


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"command": ""}, "must be a program with its arguments"),
        ({"command": ["ls"]}, "must be a program with its arguments"),
        ({"command": "ls 'x"}, "cannot be split into words: No closing quotation"),
        ({"pattern": "("}, "not a regular expression"),
        ({"factor": 0}, "finite and not 0"),
        ({"factor": float("nan")}, "factor must be a number"),
        ({"folder": "nowhere"}, "there is no folder nowhere"),
        ({"folder": ".", "keep": "runs"}, "lies in the folder that is copied"),
        ({"value_from": "/tmp/x"}, "a name in the folder of the run"),
    ],
)
def test_mistakes_are_named_before_anything_runs(settings, message):
    with pytest.raises(ValueError, match=message):
        ps.Command(**{"command": "ls", **settings})


def test_a_missing_template_is_named():
    with pytest.raises(FileNotFoundError, match=r"case\.in"):
        ps.Command("ls", templates="case.in")


def test_check_names_what_is_missing():
    script(Path(), "echo 1")
    Path("plain").write_text("echo 1")
    with pytest.raises(TypeError, match=r"the command has \{rte\}, but there is no such variable; did you mean rate"):
        ps.Command("ls {rte}").check(["rate"], [])
    with pytest.raises(ValueError, match=r"rate has no effect: write \{rate\} in the command"):
        ps.Command("ls").check(["rate", "gain"], ["rate"])
    with pytest.raises(ValueError, match=r"there is no program simulate; for the file in this folder write \./sim"):
        ps.Command("simulate").check([], [])
    with pytest.raises(ValueError, match="not executable: use chmod"):
        ps.Command("./plain").check([], [])
    with pytest.raises(ValueError, match=r"there is no program \./nothing"):
        ps.Command("./nothing").check([], [])
    ps.Command("./simulate {rate}").check(["rate", "gain"], ["rate"])
    ps.Command("./simulate {rate}", folder=True).check(["rate"], ["rate"])


def test_a_wrong_name_ends_a_run_after_three_calls():
    with pytest.raises(ValueError, match=r"same exception at its first 3 calls.*the command has \{m\}"):
        ps.minimize(ps.Command("echo {m}"), {"n": ps.Integer(1, 40)}, rng=1)


def test_a_program_that_cannot_start_is_named():
    with pytest.raises(FileNotFoundError, match=r"\./nothing cannot be started: No such file"):
        ps.Command("./nothing")({})


def test_the_result_of_an_earlier_run_in_the_copied_folder_is_not_read():
    (Path.cwd() / "case").mkdir()
    (Path.cwd() / "case" / "cost.txt").write_text("5")
    with pytest.raises(CommandFailed, match="did not write cost"):
        ps.Command("true", folder="case", value_from="cost.txt")({"x": 1})
    assert (Path.cwd() / "case" / "cost.txt").read_text() == "5"
    with pytest.raises(ValueError, match="a name in the folder of the run"):
        ps.Command("true", value_from="../cost.txt")


def test_two_templates_cannot_become_the_same_file():
    for folder in ("a", "b"):
        (Path.cwd() / folder).mkdir()
        (Path.cwd() / folder / "case.in").write_text("{x}")
    with pytest.raises(ValueError, match="two templates would be written to the same file, case"):
        ps.Command("cat case", templates=["a/case.in", "b/case.in"])


def test_names_in_braces_may_have_any_letters():
    assert ps.Command("echo {λ} {größe_1:.1f}")({"λ": 3.0, "größe_1": 0.25}) == 0.2


@pytest.mark.parametrize(("text", "value"), [("0.1234-105", 1.234e-106), ("-.5+120", -5e119), ("cost 10-20", 10.0)])
def test_fortran_leaves_out_the_letter_of_long_exponents(text, value):
    assert read_value(text, None, "the output") == value
