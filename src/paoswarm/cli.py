"""The command ``paoswarm``.

.. code-block:: console

    $ paoswarm study paper --out study
    $ paoswarm study bbob --dims 2 5 10
    $ paoswarm study my-study.toml --out my-study
    $ paoswarm audit PAO PSO
    $ paoswarm resume run.paoswarm --fun package.module:function
    $ paoswarm watch run.paoswarm
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from paoswarm.resume import resume
from paoswarm.storage.watch import watch
from paoswarm.study import presets
from paoswarm.study.audit import audit_study, check_runs, final_errors, judge
from paoswarm.study.cell_files import OtherStudy
from paoswarm.study.config import ConfigurationError, method_named, read_study
from paoswarm.study.run_cells import CellFailed
from paoswarm.study.study import Study

QUICK = 15  # runs: the fewest with which the paper's comparisons can be significant, and some more


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; errors that a user can mend are one line on stderr."""
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print(f"paoswarm: {message}", file=sys.stderr)
            options.run(options)
    except BrokenPipeError:  # the reader of the output has gone
        return 1
    except (ConfigurationError, OtherStudy, CellFailed, ImportError, OSError, ValueError, TypeError) as error:
        reason = f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.strerror else error
        print(f"paoswarm: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\npaoswarm: interrupted{options.kept}", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="paoswarm", description="Studies and stored runs of particle swarms.")
    parser.add_argument("--version", action="version", version=f"paoswarm {version('paoswarm')}")
    commands = parser.add_subparsers(required=True, metavar="command")
    study = commands.add_parser("study", help="run a benchmark study and write its report")
    study.add_argument("study", help="'paper', 'bbob' or a TOML file")
    study.add_argument("--out", type=Path, help="folder for runs, figures and report (default: study-NAME)")
    study.add_argument("--problems", nargs="+", metavar="NAME", help="only these problems")
    study.add_argument("--methods", nargs="+", metavar="NAME", help="only these methods of the study")
    study.add_argument("--dims", nargs="+", type=int, metavar="D", help="dimensions")
    study.add_argument("--runs", type=int, help="runs of each method on each problem")
    study.add_argument("--seed", type=int, help="seed of everything")
    study.add_argument("--quick", action="store_true", help=f"{QUICK} runs, to have a look")
    study.add_argument("--peers", action="store_true", help="bbob: with SciPy's DE and CMA-ES")
    study.add_argument("--workers", type=int, default=-1, help="processes (default: one per core)")
    study.set_defaults(run=_study)
    audit = commands.add_parser("audit", help="tell whether methods profit from an optimum at the centre of the box")
    audit.add_argument("methods", nargs="+", metavar="METHOD", help="PAO, PSO, PSO:paper, ...")
    audit.add_argument("--dim", type=int, default=8)
    audit.add_argument("--runs", type=int, default=30)
    audit.add_argument("--seed", type=int, default=1)
    audit.add_argument("--out", type=Path, help="folder that keeps the runs, so that an interrupted audit goes on")
    audit.add_argument("--workers", type=int, default=-1, help="processes (default: one per core)")
    audit.set_defaults(run=_audit)
    for command in (study, audit):
        command.set_defaults(kept="; finished cells are kept, the same command goes on from there")
    again = commands.add_parser("resume", help="go on with a run that was stored")
    again.add_argument("store", type=Path, help="the file that was store= of minimize or sample")
    again.add_argument("--fun", required=True, metavar="MODULE:FUNCTION", help="the objective, as it is imported")
    again.add_argument("--maxiter", type=int, help="another limit of generations")
    again.add_argument("--maxfev", type=int, help="another limit of evaluations")
    again.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop after so many seconds")
    again.add_argument("--workers", type=int, help="processes (default: as many as before)")
    again.set_defaults(run=_resume, kept="; evaluations are kept, the same command goes on from there")
    look = commands.add_parser("watch", help="show how a stored run is getting on")
    look.add_argument("store", type=Path, help="its file")
    look.add_argument("--once", action="store_true", help="only as it stands now")
    look.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="between two looks (default: 1)")
    look.set_defaults(run=_watch, kept="")
    return parser


def _study(options: argparse.Namespace) -> None:
    changed: dict[str, Any] = {}
    given = {"problems": options.problems, "dims": options.dims, "runs": options.runs, "seed": options.seed}
    changed |= {name: value for name, value in given.items() if value is not None}
    if options.study == "paper":
        study = presets.paper(**changed)
    elif options.study == "bbob":
        study = presets.bbob(peers=options.peers, **changed)
    elif options.study.endswith(".toml"):
        study = _changed(read_study(options.study), changed)
    else:
        raise ConfigurationError(
            f"unknown study {options.study!r}; known are paper, bbob, or a file that ends in .toml"
        )
    if options.peers and options.study != "bbob":
        raise ConfigurationError("--peers belongs to the study bbob; elsewhere peers are methods of the configuration")
    if options.methods is not None:
        study = _only(study, options.methods)
    if options.quick and options.runs is None:
        study = _changed(study, {"runs": min(study.runs, QUICK)})
    name = Path(options.study).stem
    folder = options.out or Path(f"study-{name}" + ("-quick" if options.quick else ""))
    how = {"workers": options.workers, "progress": sys.stderr.isatty()}
    print(_announcement(study, folder), flush=True)
    results = study.run(folder, **how)
    # Statistics and figures need libraries that are slow to load: not before the runs are done.
    from paoswarm.study.claims import paper_sections
    from paoswarm.study.findings import findings
    from paoswarm.study.publish import publish

    path = publish(results, folder, sections=paper_sections(results, study, folder, **how))
    print("\n" + "\n\n".join(findings(results)))
    part = any(given is not None for given in (options.problems, options.methods, options.dims, options.runs))
    print(f"\nThe report{', of this part of the study alone' if part else ''}: {path}")


def _changed(study: Study, changed: dict[str, Any]) -> Study:
    return dataclasses.replace(study, **changed)


def _only(study: Study, names: list[str]) -> Study:
    """The study with some of its methods."""
    unknown = [name for name in names if name not in study.methods]
    if unknown:
        raise ConfigurationError(f"--methods: unknown {unknown[0]!r}; this study has {', '.join(study.methods)}")
    reference = study.reference if study.reference in names else names[0]
    methods = {name: study.methods[name] for name in names}
    return _changed(study, {"methods": methods, "reference": reference, "groups": None})


def _announcement(study: Study, folder: Path) -> str:
    evaluations = sum(cell.runs * cell.budget for cell in study.cells())
    numbers = ((study.problems, "problem"), (study.dims, "dimension"), (study.methods, "method"))
    parts = [f"{len(things)} {noun}{'' if len(things) == 1 else 's'}" for things, noun in numbers]
    return f"{study.title}: {' x '.join(parts)} x {study.runs} runs, {evaluations:.2g} evaluations, into {folder}"


def _audit(options: argparse.Namespace) -> None:
    check_runs(options.runs)
    methods = {name: method_named(name) for name in options.methods}
    study = audit_study(methods, {"runs": options.runs, "seed": options.seed}, options.dim)
    with TemporaryDirectory() as nowhere:
        results = study.run(options.out or nowhere, workers=options.workers, progress=sys.stderr.isatty())
    for name in methods:
        print(judge(final_errors(results), name, name))


def _resume(options: argparse.Namespace) -> None:
    given = {name: getattr(options, name) for name in ("maxiter", "maxfev", "time_limit", "workers")}
    changes = {name: value for name, value in given.items() if value is not None}
    print(resume(options.store, _imported(options.fun), **changes, progress=sys.stderr.isatty()))


def _imported(name: str) -> Any:
    """``package.module:function``, from the present folder or from what is installed."""
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise ConfigurationError(f"--fun is package.module:function, got {name!r}")
    sys.path.insert(0, "")
    found = importlib.import_module(module)
    for part in function.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"--fun: there is no {part!r} in {found.__name__}")
        found = getattr(found, part)
    return found


def _watch(options: argparse.Namespace) -> None:
    shown = 0

    def show(text: str) -> None:
        nonlocal shown
        back = f"\x1b[{shown}A\x1b[J" if shown and sys.stdout.isatty() else ""
        print(f"{back}{text}", flush=True)
        shown = text.count("\n") + 1

    if not 0 < options.every < float("inf"):
        raise ConfigurationError(f"--every is a number of seconds, got {options.every}")
    watch(options.store, once=options.once, every=options.every, show=show)


if __name__ == "__main__":
    sys.exit(main())
