"""The command ``paoswarm``.

.. code-block:: console

    $ paoswarm study paper --out study
    $ paoswarm study bbob --dims 2 5 10
    $ paoswarm study my-study.toml --out my-study
    $ paoswarm audit PAO PSO
    $ paoswarm resume run.paoswarm --fun package.module:function
    $ paoswarm watch run.paoswarm
    $ paoswarm explore run.paoswarm
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import os
import signal
import sys
import warnings
import webbrowser
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from paoswarm.checks import choices, positive_number
from paoswarm.explore.launch import read_stores
from paoswarm.resume import resume
from paoswarm.storage.store import Store
from paoswarm.storage.watch import watch
from paoswarm.study import presets
from paoswarm.study.audit import audit_study, check_runs, final_errors, judge
from paoswarm.study.cell_files import OtherStudy
from paoswarm.study.config import ConfigurationError, method_or_adapter, read_study
from paoswarm.study.run_cells import CellFailed
from paoswarm.study.study import Study

_EXPLORE_EXAMPLES = """examples:
  paoswarm explore                        what mass, damping, stiffness, noise and dt do to a swarm
  paoswarm explore run.paoswarm           a stored run, while it goes on
  paoswarm explore a.paoswarm b.paoswarm  several runs
  paoswarm explore --port 8765 --no-browser run.paoswarm
                                          on another machine; then here: ssh -L 8765:127.0.0.1:8765 MACHINE
"""
QUICK = 15  # runs: a few more than the paper's comparisons need to be significant


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code. Errors that a user can fix are one line on stderr."""
    options = _parser().parse_args(arguments)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_, **__: print(f"paoswarm: {message}", file=sys.stderr)
            options.run(options)
    except BrokenPipeError:  # the program that reads the output has ended
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
    parser = argparse.ArgumentParser(
        prog="paoswarm", description="Run benchmark studies of optimisers; resume, watch or explore stored runs."
    )
    parser.add_argument("--version", action="version", version=f"paoswarm {version('paoswarm')}")
    commands = parser.add_subparsers(required=True, metavar="command")
    study = commands.add_parser("study", help="run a benchmark study and write its report")
    study.add_argument("study", help="'paper', 'bbob', or a TOML file")
    study.add_argument("--out", type=Path, help="folder for runs, figures and the report (default: study-NAME)")
    study.add_argument("--problems", nargs="+", metavar="NAME", help="problems, instead of the study's")
    study.add_argument("--methods", nargs="+", metavar="NAME", help="only these methods of the study")
    study.add_argument("--dims", nargs="+", type=int, metavar="D", help="dimensions, instead of the study's")
    study.add_argument("--runs", type=int, help="number of runs of each method on each problem")
    study.add_argument("--seed", type=int, help="seed of all runs")
    study.add_argument("--quick", action="store_true", help=f"at most {QUICK} runs, for a first look")
    study.add_argument("--peers", action="store_true", help="bbob only: include SciPy's DE and CMA-ES")
    study.set_defaults(run=_study)
    audit = commands.add_parser("audit", help="test whether methods profit from an optimum at the centre of the box")
    audit.add_argument("methods", nargs="+", metavar="METHOD", help="PAO, PSO, PSO:paper, ...")
    audit.add_argument("--dim", type=int, default=8, help="dimension (default: 8)")
    audit.add_argument("--runs", type=int, default=30, help="number of runs on each problem (default: 30)")
    audit.add_argument("--seed", type=int, default=1, help="seed of all runs (default: 1)")
    audit.add_argument("--out", type=Path, help="folder for the runs, to continue an interrupted audit")
    audit.set_defaults(run=_audit)
    for command in (study, audit):
        command.add_argument("--workers", type=int, default=-1, help="number of processes (default: one per core)")
        command.set_defaults(kept="; finished cells are kept, run the same command again to continue")
    resumed = commands.add_parser("resume", help="continue a stored run")
    resumed.add_argument("store", type=Path, help="the file that was given as store= to minimize or sample")
    resumed.add_argument("--fun", required=True, metavar="MODULE:FUNCTION", help="where to import the objective from")
    resumed.add_argument("--maxiter", type=int, help="new limit on generations")
    resumed.add_argument("--maxfev", type=int, help="new limit on evaluations")
    resumed.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop after this time")
    resumed.add_argument("--workers", type=int, help="number of processes (default: as before)")
    resumed.add_argument(
        "--trust", action="store_true", help="use the recorded values even if the function has changed"
    )
    resumed.set_defaults(run=_resume, kept="; evaluations are kept, run the same command again to continue")
    watched = commands.add_parser("watch", help="show the progress of a stored run")
    watched.add_argument("store", type=Path, help="the file of the run")
    watched.add_argument("--once", action="store_true", help="show the present state and exit")
    watched.add_argument("--every", type=float, default=1.0, metavar="SECONDS", help="refresh interval (default: 1)")
    watched.set_defaults(run=_watch, kept="")
    explored = commands.add_parser(
        "explore",
        help="open a local web page: what hyperparameters do, and stored runs while they go on",
        description="Open a web page on this machine. Nothing is sent elsewhere. Ctrl-C ends it.",
        epilog=_EXPLORE_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    explored.add_argument("store", nargs="*", type=Path, help="files that were given as store= of a run")
    explored.add_argument("--port", type=int, default=0, help="port of the page (default: any free one)")
    explored.add_argument("--link", metavar="LINK", help="show what a copied link shows")
    explored.add_argument("--no-browser", action="store_true", help="print the address only")
    explored.set_defaults(run=_explore, kept="")
    return parser


def _study(options: argparse.Namespace) -> None:
    changed = _given(options, "problems", "dims", "runs", "seed")
    if options.study == "paper":
        study = presets.paper(**changed)
    elif options.study == "bbob":
        study = presets.bbob(peers=options.peers, **changed)
    elif options.study.endswith(".toml"):
        study = dataclasses.replace(read_study(options.study), **changed)
    else:
        raise ConfigurationError(
            f"unknown study {options.study!r}; choose paper, bbob, or a file name that ends in .toml"
        )
    if options.peers and options.study != "bbob":
        raise ConfigurationError("--peers is an option of the study bbob; in a TOML file, list peers as methods")
    if options.methods is not None:
        study = _only(study, options.methods)
    if options.quick and options.runs is None:
        study = dataclasses.replace(study, runs=min(study.runs, QUICK))
    name = Path(options.study).stem
    folder = options.out or Path(f"study-{name}" + ("-quick" if options.quick else ""))
    how = {"workers": options.workers, "progress": sys.stderr.isatty()}
    print(_announcement(study, folder), flush=True)
    results = study.run(folder, **how)
    # Imported late: statistics and figures need libraries that are slow to load.
    from paoswarm.study.claims import paper_sections
    from paoswarm.study.findings import findings
    from paoswarm.study.publish import publish
    from paoswarm.study.verdict import verdict

    path = publish(results, folder, sections=paper_sections(results, study, folder, **how))
    print("\n" + "\n\n".join([*verdict(results), *findings(results)]))
    part = _given(options, "problems", "methods", "dims", "runs")
    print(f"\nReport{' on this part of the study' if part else ''}: {path}")


def _given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Return those of the named options that were given."""
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _only(study: Study, names: list[str]) -> Study:
    """Return the study with these methods only."""
    unknown = [name for name in names if name not in study.methods]
    if unknown:
        raise ConfigurationError(f"--methods: unknown method {unknown[0]!r}; {choices(unknown[0], study.methods)}")
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


def _audit(options: argparse.Namespace) -> None:
    check_runs(options.runs)
    methods = {name: method_or_adapter(name) for name in options.methods}
    study = audit_study(methods, {"runs": options.runs, "seed": options.seed}, options.dim)
    with TemporaryDirectory() as temporary:
        results = study.run(options.out or temporary, workers=options.workers, progress=sys.stderr.isatty())
    for name in methods:
        print(judge(final_errors(results), name, name))


def _resume(options: argparse.Namespace) -> None:
    changes = _given(options, "maxiter", "maxfev", "time_limit", "workers")
    store = Store(options.store, trust=options.trust)
    print(resume(store, _imported(options.fun), **changes, progress=sys.stderr.isatty()))


def _imported(name: str) -> Any:
    """Import ``package.module:function`` from the current folder or from an installed package."""
    module, colon, function = name.partition(":")
    if not (module and colon and function):
        raise ConfigurationError(f"--fun must be package.module:function, got {name!r}")
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

    watch(options.store, once=options.once, every=positive_number("--every", options.every), show=show)


def _explore(options: argparse.Namespace) -> None:
    stores = read_stores(options.store)
    # Imported late: the other commands need no web server.
    from paoswarm.explore.server import Server

    with Server(stores, options.port) as server:
        address = server.address + _fragment(options.link, bool(stores))
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends it like Ctrl-C
        try:
            print(f"paoswarm explore: {address}\nCtrl-C ends it.", flush=True)
            if not options.no_browser and _has_display():
                webbrowser.open(address)
            server.serve_forever(poll_interval=0.1)
        except KeyboardInterrupt:
            print("\nended", flush=True)
        finally:
            signal.signal(signal.SIGTERM, before)


def _fragment(link: str | None, has_runs: bool) -> str:
    """The part of the address that tells what to show first."""
    if link is None:
        return "#run" if has_runs else ""
    fragment = link.partition("#")[2]
    if not fragment.startswith("swarm"):
        raise ValueError(f"--link must be a link that was copied from the page (...#swarm?...), got {link!r}")
    return f"#{fragment}"


def _has_display() -> bool:
    """Whether a browser with windows can be opened; one in the terminal would be in the way."""
    return sys.platform in ("win32", "darwin") or any(os.environ.get(n) for n in ("DISPLAY", "WAYLAND_DISPLAY"))


if __name__ == "__main__":
    sys.exit(main())
