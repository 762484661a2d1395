"""``paoswarm study`` and ``paoswarm audit``: benchmark studies, and a test for a bias towards the centre of the box."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from paoswarm.cli.options import given_of

if TYPE_CHECKING:
    from paoswarm.study import Study

QUICK = 15  # runs: a few more than the paper's comparisons need to be significant
_KEPT = "; finished cells are kept, run the same command again to continue"
_STUDY_EXAMPLES = """examples:
  paoswarm study paper --quick              a first look at the study of the paper
  paoswarm study bbob --dims 2 5 10         COCO's functions
  paoswarm study my-study.toml --out mine   a study of your own
"""
_AUDIT_EXAMPLES = """examples:
  paoswarm audit PAO PSO DE
  paoswarm audit PSO:paper --dim 20 --runs 50 --out audit
"""


def fill_study(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `study`."""
    parser.epilog = _STUDY_EXAMPLES
    parser.add_argument("study", help="'paper', 'bbob', or a TOML file")
    parser.add_argument("--out", type=Path, help="folder for runs, figures and the report (default: study-NAME)")
    parser.add_argument("--problems", nargs="+", metavar="NAME", help="problems, instead of the study's")
    parser.add_argument("--methods", nargs="+", metavar="NAME", help="only these methods of the study")
    parser.add_argument("--dims", nargs="+", type=int, metavar="D", help="dimensions, instead of the study's")
    parser.add_argument("--runs", type=int, help="number of runs of each method on each problem")
    parser.add_argument("--seed", type=int, help="seed of all runs")
    parser.add_argument("--quick", action="store_true", help=f"at most {QUICK} runs, for a first look")
    parser.add_argument("--peers", action="store_true", help="bbob only: include SciPy's DE and CMA-ES")
    parser.add_argument("--workers", type=int, default=-1, help="number of processes (default: one per core)")
    parser.set_defaults(kept=_KEPT)


def run_study(options: argparse.Namespace) -> None:
    """Run the study and write its report."""
    from paoswarm.study import presets, read_study

    changed = given_of(options, "problems", "dims", "runs", "seed")
    if options.study == "paper":
        study = presets.paper(**changed)
    elif options.study == "bbob":
        study = presets.bbob(peers=options.peers, **changed)
    elif options.study.endswith(".toml"):
        study = dataclasses.replace(read_study(options.study), **changed)
    else:
        raise ValueError(f"unknown study {options.study!r}; choose paper, bbob, or a file name that ends in .toml")
    if options.peers and options.study != "bbob":
        raise ValueError("--peers is an option of the study bbob; in a TOML file, list peers as methods")
    if options.methods is not None:
        study = _only(study, options.methods)
    if options.quick and options.runs is None:
        study = dataclasses.replace(study, runs=min(study.runs, QUICK))
    name = Path(options.study).stem
    folder = options.out or Path(f"study-{name}" + ("-quick" if options.quick else ""))
    print(_announcement(study, folder), flush=True)
    results = study.run(folder, workers=options.workers, progress=sys.stderr.isatty())
    from paoswarm.study import findings, publish, verdict  # not before: statistics and figures are slow to load

    path = publish(results, folder)
    print("\n" + "\n\n".join([*verdict(results), *findings(results)]))
    part = given_of(options, "problems", "methods", "dims", "runs")
    print(f"\nReport{' on this part of the study' if part else ''}: {path}")


def _only(study: Study, names: list[str]) -> Study:
    """Return the study with these methods only."""
    from paoswarm.helpers import choices

    unknown = [name for name in names if name not in study.methods]
    if unknown:
        raise ValueError(f"--methods: unknown method {unknown[0]!r}; {choices(unknown[0], study.methods)}")
    reference = study.reference if study.reference in names else names[0]
    methods = {name: study.methods[name] for name in names}
    fewer = {name: runs for name, runs in study.fewer_runs.items() if name in methods}
    return dataclasses.replace(study, methods=methods, fewer_runs=fewer, reference=reference, groups=None)


def _announcement(study: Study, folder: Path) -> str:
    evaluations = sum(cell.runs * cell.budget for cell in study.cells())
    sizes = ((study.problems, "problem"), (study.dims, "dimension"), (study.methods, "method"))
    parts = [f"{len(things)} {noun}{'' if len(things) == 1 else 's'}" for things, noun in sizes]
    runs = f"{'up to ' if study.fewer_runs else ''}{study.runs} runs"
    most = "at most " if study.precision else ""
    return f"{study.title}: {' x '.join(parts)} x {runs}, {most}{evaluations:,} evaluations, written to {folder}"


def fill_audit(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `audit`."""
    parser.epilog = _AUDIT_EXAMPLES
    parser.add_argument("methods", nargs="+", metavar="METHOD", help="PAO, PSO, PSO:paper, ...")
    parser.add_argument("--dim", type=int, default=8, help="dimension (default: 8)")
    parser.add_argument("--runs", type=int, default=30, help="number of runs on each problem (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="seed of all runs (default: 1)")
    parser.add_argument("--out", type=Path, help="folder for the runs, to continue an interrupted audit")
    parser.add_argument("--workers", type=int, default=-1, help="number of processes (default: one per core)")
    parser.set_defaults(kept=_KEPT)


def run_audit(options: argparse.Namespace) -> None:
    """Run the audit and print its verdicts."""
    from paoswarm.study import centre_biases, method_named

    methods = {name: method_named(name) for name in options.methods}
    with TemporaryDirectory() as temporary:
        how = {"workers": options.workers, "progress": sys.stderr.isatty()}
        settings = {"dim": options.dim, "runs": options.runs, "seed": options.seed}
        for found in centre_biases(methods, options.out or temporary, **settings, **how):
            print(found)
