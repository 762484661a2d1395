"""The command line: a study from a file to its report, and mistakes in one line."""

import signal
import subprocess
import sys
import urllib.request
import warnings
from pathlib import Path

import pytest

import paoswarm as ps
from paoswarm import cli
from paoswarm.cli.study import QUICK
from paoswarm.study import presets

TOML = """
title = "A small study"
problems = ["sphere", "ackley-shifted"]
dims = [2]
runs = 3
population = 10
generations = 6

[methods.PAO]
[methods.PSO]
preset = "paper"
[methods."my DE"]
kind = "DE"
factor = 0.7
"""


@pytest.fixture(autouse=True)
def _somewhere_else(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # the command sets its own


@pytest.fixture
def toml(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(TOML)
    return path


def refused(capsys, *arguments):
    """The one line that the command prints on stderr before it gives up with code 2."""
    assert cli.main([str(argument) for argument in arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("paoswarm: ")
    assert said.count("\n") == 1, said
    return said


def written(folder):
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}


def studies_run(monkeypatch):
    """The studies that a command would run, without running them."""
    seen = []

    class Enough(ValueError):
        pass

    def note(study, folder, *, workers, progress):
        seen.append((study, Path(folder), workers))
        raise Enough("enough")

    monkeypatch.setattr(ps.study.Study, "run", note)
    return seen


# Studies


def test_a_study_from_a_file_to_its_report(toml, capsys):
    assert cli.main(["study", str(toml), "--out", "out", "--workers", "1"]) == 0
    said = capsys.readouterr()
    assert "A small study: 2 problems x 1 dimension x 3 methods x 3 runs, 1,260 evaluations, written to out" in said.out
    assert "PAO" in said.out.partition("\n")[2]  # the findings
    assert said.out.rstrip().endswith(f"Report: {Path('out') / 'report.html'}")
    assert said.err == ""
    assert written("out") == {
        *(f"runs/{problem}-2d/{name}.parquet" for problem in ("sphere", "ackley-shifted1") for name in ("PAO", "PSO")),
        *(str(path.relative_to("out")) for path in Path("out/runs").glob("*/my_DE-*.parquet")),
        "report.html",
        *(f"tables/{name}.csv" for name in ("summary", "comparisons", "ranks", "success")),
        "figures/convergence-2d.png",
        "figures/runtimes-2d.png",
        "figures/ranks-1.png",
    }
    assert len(list(Path("out/runs").glob("*/*.parquet"))) == 6
    assert "A small study" in Path("out/report.html").read_text(encoding="utf-8")
    runs = {path: path.stat().st_mtime_ns for path in Path("out/runs").glob("*/*")}
    report = Path("out/report.html").read_bytes()
    assert cli.main(["study", str(toml), "--out", "out", "--workers", "2"]) == 0
    assert {path: path.stat().st_mtime_ns for path in Path("out/runs").glob("*/*")} == runs
    assert Path("out/report.html").read_bytes() == report


@pytest.mark.slow
def test_the_installed_command_does_the_same(toml):
    command = Path(sys.executable).with_name("paoswarm")
    if not command.exists():
        pytest.skip("the package is not installed as a command")
    arguments = ["study", toml, "--runs", "2", "--problems", "sphere", "--methods", "PAO", "PSO"]
    done = subprocess.run([command, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert {"report.html", "tables/summary.csv", "runs/sphere-2d/PSO.parquet"} <= written("study-small")
    done = subprocess.run([command, "study", "nonsense"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown study 'nonsense'" in done.stderr
    assert "Traceback" not in done.stderr


def test_options_change_the_study(toml, monkeypatch):
    seen = studies_run(monkeypatch)
    base = ["study", str(toml)]
    cli.main(base)
    cli.main([*base, "--runs", "7", "--seed", "5", "--dims", "3", "4", "--problems", "griewank", "--workers", "2"])
    cli.main([*base, "--methods", "my DE", "PSO", "--out", "there"])
    cli.main([*base, "--quick"])
    cli.main([*base, "--quick", "--runs", "2"])
    plain, changed, fewer, quick, quicker = seen
    assert (plain[0].runs, plain[1], plain[2]) == (3, Path("study-small"), -1)
    assert (changed[0].runs, changed[0].seed, changed[0].dims, changed[2]) == (7, 5, (3, 4), 2)
    assert changed[0].problems == ("griewank",)
    assert changed[0].methods == plain[0].methods
    assert list(fewer[0].methods) == ["my DE", "PSO"]
    assert fewer[0].reference == "my DE"  # PAO is gone
    assert fewer[0].methods["my DE"] == ps.classic.DE(factor=0.7)
    assert fewer[1] == Path("there")
    assert (quick[0].runs, quick[1]) == (3, Path("study-small-quick"))  # it has fewer anyway
    assert quicker[0].runs == 2


def test_the_paper_s_study_has_a_name(monkeypatch):
    seen = studies_run(monkeypatch)
    cli.main(["study", "paper"])
    cli.main(["study", "paper", "--quick"])
    cli.main(["study", "paper", "--methods", "PSO", "PAO"])
    whole, quick, fewer = seen
    assert (whole[0], whole[1]) == (presets.paper(), Path("study-paper"))
    assert (quick[0], quick[1]) == (presets.paper(runs=QUICK), Path("study-paper-quick"))
    assert (fewer[0].reference, list(fewer[0].methods)) == ("PAO", ["PSO", "PAO"])


def test_the_bbob_study_has_a_name(monkeypatch):
    pytest.importorskip("cocoex", reason="cocoex (coco-experiment) is not installed")
    seen = studies_run(monkeypatch)
    cli.main(["study", "bbob"])
    cli.main(["study", "bbob", "--dims", "2", "5", "--peers", "--quick"])
    assert seen[0][0].methods == presets.bbob().methods
    assert (seen[1][0].dims, seen[1][0].runs, len(seen[1][0].methods)) == ((2, 5), 15, 8)


def test_a_quick_look_at_the_paper_s_study(capsys):
    part = ["--problems", "sphere", "--dims", "2", "--methods", "PAO", "PSO"]
    assert cli.main(["study", "paper", "--quick", "--out", "out", "--workers", "1", *part]) == 0
    assert {"report.html", "tables/summary.csv"} <= written("out")
    assert "15 times" in Path("out/report.html").read_text(encoding="utf-8")


# Mistakes


def test_the_error_for_an_unknown_study_lists_the_known_ones(capsys):
    said = refused(capsys, "study", "nonsense")
    assert "unknown study 'nonsense'" in said
    assert all(known in said for known in ("paper", "bbob", ".toml"))
    assert written(".") == set()


def test_the_error_for_an_unknown_method_lists_the_known_ones(toml, capsys):
    said = refused(capsys, "study", toml, "--methods", "PAO", "POA")
    assert "--methods: unknown method 'POA'" in said
    assert "PAO, PSO, my DE" in said
    assert "PAO, AdaptivePAO, SciPy DE, CMA-ES, PSO" in refused(capsys, "study", "paper", "--methods", "XYZ")


def test_the_error_for_an_unknown_problem_lists_the_known_ones(toml, capsys):
    said = refused(capsys, "study", toml, "--problems", "rastrigen")
    assert "unknown problem 'rastrigen'; did you mean rastrigin?" in said
    assert all(name in said for name in ps.problems.names)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--runs", "0"], "runs must be"),
        (["--seed", "-1"], "seed must be"),
        (["--dims", "0"], "dims must be"),
        (["--dims", "2", "2"], "dims has an entry twice"),
        (["--workers", "0"], "workers must be"),
    ],
)
def test_a_wrong_option_is_named(options, text, toml, capsys):
    assert text in refused(capsys, "study", toml, *options)


@pytest.mark.parametrize("inside", ["", "deeper"])
def test_a_folder_that_cannot_be_written_is_named(inside, toml, capsys):
    Path("file").write_text("in the way")
    folder = Path("file") / inside
    said = refused(capsys, "study", toml, "--out", folder)
    assert said.startswith("paoswarm: cannot write")
    assert f"{folder}: " in said
    assert Path("file").read_text() == "in the way"


def test_a_file_that_is_missing_or_broken_is_named(capsys):
    assert "cannot read the configuration nowhere.toml" in refused(capsys, "study", "nowhere.toml")
    Path("broken.toml").write_text("problems = 3 4")
    assert "broken.toml is not valid TOML" in refused(capsys, "study", "broken.toml")


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("runz = 3", "runz: no such key"),
        ("init = 5", "init"),
        ("groups = 5", "groups"),
        ("reference = ['PAO']", "reference"),
        ("[methods.it]\nkind = ['PAO']", "methods.it"),
        ("[methods.it]\nkind = 'PAO'\nmas = 1.0", "methods.it.mas"),
    ],
)
def test_a_mistake_in_a_file_is_named_without_a_traceback(line, text, capsys):
    head, tail = TOML.split("[methods.PAO]")
    methods = line.startswith("[methods")
    Path("wrong.toml").write_text(
        head + ("" if methods else line) + "\n[methods.PAO]" + tail + (line if methods else "")
    )
    said = refused(capsys, "study", "wrong.toml", "--workers", "1")
    assert "wrong.toml: " in said
    assert text in said


def test_other_settings_in_the_folder_are_named_and_nothing_is_overwritten(toml, capsys, monkeypatch):
    small = ["study", str(toml), "--problems", "sphere", "--methods", "PAO", "--out", "out", "--workers", "1"]
    ps.study.Study(problems=["sphere"], methods={"PAO": ps.PAO()}, dims=[2], runs=3, population=10, generations=6).run(
        "out"
    )
    before = {path: path.read_bytes() for path in Path("out").rglob("*.parquet")}
    said = refused(capsys, *small, "--runs", "4")
    assert "holds runs with runs = 3, but this study has runs = 4; choose another folder" in said
    assert {path: path.read_bytes() for path in Path("out").rglob("*.parquet")} == before


def test_a_damaged_file_is_one_line_and_the_study_continues(toml, capsys):
    small = ["study", str(toml), "--problems", "sphere", "--methods", "PAO", "--out", "out", "--workers", "1"]
    path = Path("out/runs/sphere-2d/PAO.parquet")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert cli.main(small) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"paoswarm: {path} is damaged (")
    assert said.endswith("again\n")
    assert said.count("\n") == 1


def test_a_cell_that_fails_is_one_line(toml, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cma", None)
    Path("peers.toml").write_text(TOML + "[methods.CMAES]\n")
    said = refused(capsys, "study", "peers.toml", "--workers", "1")
    assert "CMAES on sphere in 2 dimensions failed: " in said
    assert "pip install 'paoswarm[study]'" in said


def test_the_command_leaves_the_warnings_of_its_caller_alone(capsys):
    before = warnings.showwarning
    cli.main(["study", "nonsense"])
    assert warnings.showwarning is before


@pytest.mark.parametrize("arguments", [[], ["study"], ["nonsense"], ["study", "paper", "--runs", "x"], ["audit"]])
def test_wrong_usage_is_one_line_that_names_the_help(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("paoswarm: ")
    assert said.endswith("--help\n")
    assert said.count("\n") == 1


# Audits


def test_an_audit_names_its_verdict(capsys):
    assert cli.main(["audit", "PAO", "PSO:paper", "--dim", "2", "--runs", "10"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("No evidence that PAO profits") or said[0].startswith("PAO PROFITS")
    assert [line.split()[0] for line in said[1:5]] == ["sphere", "rastrigin", "ackley", "griewank"]
    assert "PSO:paper" in said[5]
    direct = ps.study.centre_bias(ps.PAO(), dim=2, runs=10)
    assert "\n".join(said[:5]) == str(direct)


def test_an_audit_with_few_runs_is_refused(capsys):
    assert "runs must be at least 10 for an audit, got 3" in refused(capsys, "audit", "PAO", "--runs", "3")


def test_the_error_of_an_audit_of_an_unknown_method_lists_the_known_ones(capsys):
    said = refused(capsys, "audit", "PAO", "QPS0")
    assert "unknown method 'QPS0'" in said
    assert "PAO, PSO, QPSO, DE, SADE" in said
    assert "did you mean QPSO?" in said
    assert "got 'best' of PAO" in refused(capsys, "audit", "PAO:best")
    assert "runs must be" in refused(capsys, "audit", "PAO", "--runs", "0")


def test_the_version_is_shown(capsys):
    with pytest.raises(SystemExit, match="0"):
        cli.main(["--version"])
    assert capsys.readouterr().out.strip() == f"paoswarm {ps.__version__}"


@pytest.mark.parametrize("seconds", ["inf", "nan", "-1"])
def test_a_wrong_refresh_interval_is_named(seconds, capsys):
    assert cli.main(["watch", "run", "--every", seconds]) == 2
    assert capsys.readouterr().err.startswith("paoswarm: --every must be a positive number")


def test_a_store_that_is_missing_is_named(tmp_path, capsys):
    assert cli.main(["watch", str(tmp_path / "nothing"), "--once"]) == 2
    assert capsys.readouterr().err == f"paoswarm: {tmp_path / 'nothing'}: No such file or directory\n"


# Explore


def test_mistakes_of_explore_are_one_line(capsys, tmp_path):
    assert "there is no file nothing.paoswarm" in refused(capsys, "explore", "nothing.paoswarm")
    other = tmp_path / "other.txt"
    other.write_text("hello")
    assert "is not a paoswarm store" in refused(capsys, "explore", other)
    assert "is not a regular file" in refused(capsys, "explore", tmp_path)
    assert "--link must be a link that was copied" in refused(capsys, "explore", "--link", "http://somewhere/")
    assert "port must be at most 65535" in refused(capsys, "explore", "--port", "70000")
    with ps.explore() as page:
        port = page.address.split(":")[2].split("/")[0]
        assert f"cannot listen on port {port}: address already in use" in refused(capsys, "explore", "--port", port)


def test_the_help_of_explore_has_examples(capsys):
    with pytest.raises(SystemExit):
        cli.main(["explore", "--help"])
    assert "paoswarm explore run.paoswarm" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_explore_prints_its_address_and_ends_with_a_signal(number, tmp_path):
    command = [sys.executable, "-m", "paoswarm", "explore", "--no-browser", "--link", "x#swarm?seed=7"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        address = process.stdout.readline().removeprefix("paoswarm explore: ").strip()
        assert address.startswith("http://127.0.0.1:")
        assert address.endswith("/#swarm?seed=7")
        assert process.stdout.readline() == "Ctrl-C ends it.\n"
        with urllib.request.urlopen(address.partition("#")[0], timeout=300) as page:
            assert b"<title>paoswarm explore</title>" in page.read()
        process.send_signal(number)
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out, err) == (0, "\nended\n", "")
    assert list(tmp_path.iterdir()) == []
