"""``paoswarm fit``: fit what a function or program returns to the data in a file."""

from __future__ import annotations

import argparse
from typing import Any

from paoswarm.cli.options import (
    add_fit_output,
    add_function,
    add_program,
    add_running,
    add_unknowns,
    given_of,
    read_unknowns,
)

_EXAMPLES = """examples:
  paoswarm fit model.py:simulate --data measured.csv --space space.toml
      a function of a dict that returns a dict of arrays, one for each column of the file
  paoswarm fit --command "./simulate {rate} {order}" --data measured.csv --x time --space space.toml --workers 8
      a program that prints a table with the columns of the file; its rows may be at other times
  paoswarm fit --command ./solver --template case.inp.in --value-from result.csv --data measured.csv --x time \\
      --sigma 0.02 --space space.toml --store fit.paoswarm --predictions predicted.csv
      a program that reads an input file and writes its table to another one; the size of the noise is known
"""


def fill_fit(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `fit`."""
    parser.epilog = _EXAMPLES
    add_function(parser, "the simulator")
    add_program(
        parser,
        "read the table from this file, not from the output",
        "what stands in the line before the table, if the program writes more",
    )
    group = parser.add_argument_group("data")
    group.add_argument("--data", metavar="FILE", required=True, help="a table with names in its first line, as CSV")
    group.add_argument("--outputs", nargs="+", metavar="COLUMN", help="columns of it to fit (default: all others)")
    group.add_argument(
        "--x",
        metavar="COLUMN",
        help="column of places, such as a time: a function is called as f(x, *values), a program's table has it too",
    )
    group.add_argument(
        "--sigma",
        action="append",
        metavar="[OUTPUT=]WHAT",
        help="standard deviation, a number or a column (default: a column sigma_OUTPUT; without one it is estimated)",
    )
    group.add_argument(
        "--likelihood",
        action="append",
        metavar="[OUTPUT=]LAW",
        help="law of the noise: normal, lognormal, poisson, student-t, huber",
    )
    group.add_argument("--scale", action="append", metavar="OUTPUT", help="its unit is unknown: fit a factor, too")
    group.add_argument("--offset", action="append", metavar="OUTPUT", help="its zero is unknown: fit an offset, too")
    group.add_argument("--penalty", metavar="FILE.py:NAME", help="a function of the unknowns: more residuals")
    group.add_argument("--constraints", action="append", metavar="FILE.py:NAME", help="what the unknowns must satisfy")
    add_unknowns(parser, "the variables; an entry prior = { normal = [mean, sd] } counts as a measurement")
    limits = add_running(parser)
    limits.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop after this time")
    limits.add_argument("--target", type=float, metavar="VALUE", help="stop when the value is at or below it")
    limits.add_argument("--asynchronous", action="store_true", default=None, help="no worker waits for another")
    add_fit_output(parser)


def run_fit(options: argparse.Namespace) -> int:
    """Run `fit` and report its result."""
    from paoswarm import Store, Workers, fit
    from paoswarm.cli.data import Data, named
    from paoswarm.cli.fit_tables import write_fit
    from paoswarm.cli.report import carry_out, progress_wanted
    from paoswarm.cli.source import Source

    data = Data.of(options)
    source, unknowns = Source.of(options), read_unknowns(options)
    if source.command is not None:
        at = {} if options.x is None else {options.x: data.x.tolist()}
        source = source._replace(command=source.command | {"outputs": list(data.outputs), "at": at})
    arguments: dict[str, Any] = given_of(options, "maxfev", "time_limit", "target") | source.more()
    arguments |= {"data": data.scaled(options), "sigma": data.sigma, "likelihood": data.likelihood}
    arguments |= {"priors": _priors(options), "rng": options.seed, "progress": progress_wanted(options)}
    arguments["workers"] = Workers(**given_of(options, "workers", "timeout", "asynchronous"))
    if options.store is not None:
        arguments["store"] = Store(options.store, trust=options.trust, origin=source.origin)
    if options.x is not None and source.function is not None:
        arguments["xdata"] = data.x
    fun = named(source.load(unknowns), list(data.outputs))
    x = None if options.x is None else (options.x, data.x.tolist())
    return carry_out(options, lambda: fit(fun, unknowns.given, **arguments), lambda found: write_fit(found, options, x))


def _priors(options: argparse.Namespace) -> dict[str, Any] | None:
    """The distributions of a file of variables."""
    from paoswarm import read_space

    if options.space is None:
        return None
    return {name: one for name, one in read_space(options.space, prior=True).items() if hasattr(one, "ppf")} or None
