"""``paoswarm minimize``, ``sample``, ``fit`` and ``resume``: start a run, or continue a stored one."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paoswarm.cli.options import OUTPUT, PROGRAM, RUNNING, TABLES, add, add_unknowns, given_of, read_unknowns

if TYPE_CHECKING:
    from paoswarm.cli.source import Source

_MINIMIZE_EXAMPLES = """examples:
  paoswarm minimize model.py:cost --bounds -5,5 -5,5
      a function of an array of two numbers
  paoswarm minimize model.py:cost --space space.toml --maxfev 5000 --workers 4 --store run.paoswarm
      a function of a dict, with the variables of a file; stopped, it goes on with: paoswarm resume run.paoswarm
  paoswarm minimize --command "./simulate {rate} {order}" --bounds rate=1e-6,1e3,log order=1,8,integer --timeout 60
      a program that prints its value last
  paoswarm minimize --command "./simulate case.inp" --template case.inp.in --value-from cost.txt --space space.toml
      a program that reads an input file and writes its value to another one, each call in its own folder
  paoswarm minimize model.py:cost --space space.toml --json - | jq .best
"""
_SAMPLE_EXAMPLES = """examples:
  paoswarm sample model.py:log_likelihood --space space.toml --seed 1
  paoswarm sample model.py:log_likelihood --bounds level=0,10 rate=1e-3,1e3,log --draws draws.csv
  paoswarm sample --command "./chi2 {level} {rate}" --factor -0.5 --space space.toml --workers 4 --store run.paoswarm
      a program that prints chi squared; its half with a minus is the log likelihood
"""
_FIT_EXAMPLES = """examples:
  paoswarm fit model.py:simulate --data measured.csv --space space.toml
      a function of a dict that returns a dict of arrays, one for each column of the file
  paoswarm fit --command "./simulate {rate} {order}" --data measured.csv --x time --space space.toml --workers 8
      a program that prints a table with the columns of the file; its rows may be at other times
  paoswarm fit --command ./solver --template case.inp.in --value-from result.csv --data measured.csv --x time \\
      --sigma 0.02 --space space.toml --store fit.paoswarm --predictions predicted.csv
      a program that reads an input file and writes its table to another one; the size of the noise is known
"""
_RESUME_EXAMPLES = """examples:
  paoswarm resume run.paoswarm                  a run of paoswarm fit, minimize or sample
  paoswarm resume run.paoswarm --maxfev 20000   with a larger limit
  paoswarm resume run.paoswarm --fun model.py:cost
      a run that was started in Python with store="run.paoswarm"

A file of paoswarm fit, minimize or sample names its function or program. All of that is shown first. It is run if it
lies in the current folder and is as it was; otherwise you are asked, or must add --trust or state what to run.
"""


def fill_minimize(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `minimize`."""
    parser.epilog = _MINIMIZE_EXAMPLES
    add(parser, "what to minimise", "function --vectorized")
    add(parser, PROGRAM, "--limit --factor")
    add_unknowns(parser, "the variables, one on each line; see the documentation, page Command line")
    add(parser, "limits", "--maxfev --timeout --maxiter --time-limit --target --tol")
    add(parser, RUNNING)
    add(parser, OUTPUT)
    add(parser, "search", "--method --particles --constraints --polish --asynchronous")


def run_minimize(options: argparse.Namespace) -> int:
    """Run `minimize` and report its result."""
    from paoswarm import minimize

    return _start(options, minimize, "maxiter", "tol", "method", "polish")


def fill_sample(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `sample`."""
    parser.epilog = _SAMPLE_EXAMPLES
    add(parser, "the log likelihood", "function --vectorized")
    add(parser, PROGRAM, "--limit --factor")
    add_unknowns(parser, "the prior: variables as for minimize, and entries prior = { normal = [mean, sd] }")
    add(parser, "limits", "--maxfev --timeout --n-effective")
    add(parser, RUNNING)
    add(parser, OUTPUT)
    add(parser, "", "--particles --draws", particles="number of first draws")


def run_sample(options: argparse.Namespace) -> int:
    """Run `sample` and report its result."""
    from paoswarm import sample

    if options.limit:
        raise ValueError("--limit is for minimize; a prior says what is allowed")
    return _start(options, sample, "n_effective")


def _start(options: argparse.Namespace, function: Any, *names: str) -> int:
    """Start `minimize` or `sample` with the options of these names and with those that both have."""
    from paoswarm.cli.report import start
    from paoswarm.cli.source import Source

    source, unknowns = Source.of(options), read_unknowns(options, prior=function.__name__ == "sample")
    own = given_of(options, "n_particles", "vectorized", *names)
    return start(options, function, source.load(unknowns), unknowns.given, source, **own)


def fill_fit(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `fit`."""
    parser.epilog = _FIT_EXAMPLES
    add(parser, "the simulator", "function")
    add(
        parser,
        PROGRAM,
        value_from="read the table from this file, not from the output",
        pattern="what stands in the line before the table, if the program writes more",
    )
    add(
        parser,
        "data",
        "--data --outputs --x --sigma --likelihood --scale --offset --penalty --constraints",
        constraints="what the unknowns must satisfy",
    )
    add_unknowns(parser, "the variables; an entry prior = { normal = [mean, sd] } counts as a measurement")
    add(
        parser,
        "limits",
        "--maxfev --timeout --time-limit --target --asynchronous",
        asynchronous="no worker waits for another",
    )
    add(parser, RUNNING)
    add(parser, OUTPUT)
    add(parser, TABLES)


def run_fit(options: argparse.Namespace) -> int:
    """Run `fit` and report its result."""
    from paoswarm import fit
    from paoswarm.cli.data import Data, named
    from paoswarm.cli.report import start
    from paoswarm.cli.source import Source

    data = Data.of(options)
    source, unknowns = Source.of(options), read_unknowns(options)
    x = None if options.x is None else (options.x, data.x.tolist())
    if source.command is not None:
        source = source._replace(command=source.command | {"outputs": list(data.outputs), "at": dict([x] if x else [])})
    about: dict[str, Any] = {"data": data.scaled(options), "sigma": data.sigma, "likelihood": data.likelihood}
    if x is not None and source.function is not None:
        about["xdata"] = data.x
    fun = named(source.load(unknowns), list(data.outputs))
    return start(options, fit, fun, unknowns.given, source, x, priors=_priors(options), **about)


def _priors(options: argparse.Namespace) -> dict[str, Any] | None:
    """The distributions of a file of variables."""
    from paoswarm import read_space

    if options.space is None:
        return None
    return {name: one for name, one in read_space(options.space, prior=True).items() if hasattr(one, "ppf")} or None


def fill_resume(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `resume`."""
    parser.epilog = _RESUME_EXAMPLES
    parser.add_argument("store", type=Path, help="the file that was given as store to fit, minimize or sample")
    parser.add_argument("--fun", metavar="FILE.py:FUNCTION", help="the function; by default as the file says")
    add(
        parser,
        "",
        "--constraints --penalty",
        constraints="its constraints; by default as the file says",
        penalty="that of a fit; by default as the file says",
    )
    add(
        parser,
        "new limits, and how to run",
        "--maxiter --maxfev --time-limit --timeout --workers --trust",
        workers="number of processes (default: as before)",
        trust="run what the file names, and use its values even if the function has changed",
    )
    add(parser, PROGRAM, "--limit --factor")
    add(parser, OUTPUT)
    add(parser, "", "--draws")
    add(parser, TABLES)


def run_resume(options: argparse.Namespace) -> int:
    """Continue the run and report its result."""
    from paoswarm import Store, Workers, resume
    from paoswarm.cli.data import named, recorded_outputs
    from paoswarm.cli.report import carry_out, progress_wanted

    run = Store(options.store).run()
    own = {"sample": ("draws",), "fit": ("estimates", "predictions")}.get(run.function, ())
    for name in ("draws", "estimates", "predictions"):
        if name not in own and getattr(options, name) is not None:
            raise ValueError(f"--{name}: {options.store} is a run of {run.function}, which has no {name}")
    source = _source(options)
    _check_maxfev(options)
    outputs, x = recorded_outputs(run, source)
    if source.command is not None and outputs:
        source = source._replace(command={"outputs": outputs, **source.command})
    store = Store(options.store, trust=options.trust, origin=source.origin)
    changes = given_of(options, "maxiter", "maxfev", "time_limit") | source.more()
    if how := given_of(options, "timeout", "workers"):
        changes["workers"] = replace(Workers.recorded(run), **how)
    fun, progress = named(source.load(), outputs), progress_wanted(options)

    return carry_out(options, lambda: resume(store, fun, **changes, progress=progress), x)


def _check_maxfev(options: argparse.Namespace) -> None:
    """Raise if a new limit is below what the file holds: the user probably means so many more."""
    from paoswarm import Store
    from paoswarm.results import Progress

    if options.maxfev is None or Store(options.store).run().function == "minimize_many":  # a limit of each run
        return
    held = Progress(options.store).update().evaluations
    if options.maxfev < held:
        limit = f"--maxfev {options.maxfev:g}"
        raise ValueError(
            f"{options.store} holds {held} evaluations already, which {limit} includes: give more than {held}"
        )


def _source(options: argparse.Namespace) -> Source:
    """Return what the options name, or else the file."""
    from paoswarm import Store
    from paoswarm.cli.source import Source, command_settings
    from paoswarm.cli.trust import admit

    command, own = command_settings(options), given_of(options, "constraints", "penalty")
    if options.fun is not None and command is not None:
        raise ValueError("give either --fun or --command")
    if options.fun is not None or command is not None:
        return Source(str(Path.cwd()), options.fun, command, limits=options.limit, **own)
    recorded = Source.recorded(Store(options.store).recorded_origin(), options.store)
    without: dict[str, Any] = dict.fromkeys(own)
    admit(recorded._replace(**without), options.store, options.trust)
    return recorded._replace(**own)
