"""``paoswarm minimize``: the minimum of a function or of a program's output."""

from __future__ import annotations

import argparse

from paoswarm.cli.options import add_objective, add_running, add_unknowns, given_of

_EXAMPLES = """examples:
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


def fill(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = _EXAMPLES
    add_objective(parser, "what to minimise")
    add_unknowns(parser, "the variables, one on each line; see the documentation, page Command line")
    limits = add_running(parser)
    limits.add_argument("--maxiter", type=float, metavar="N", help="most generations")
    limits.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop after this time")
    limits.add_argument("--target", type=float, metavar="VALUE", help="stop when the value is at or below it")
    limits.add_argument("--tol", type=float, help="when a single swarm has converged (default: 1e-12)")
    search = parser.add_argument_group("search")
    search.add_argument("--method", metavar="NAME", help="PAO, DE, PSO, ... or your own, FILE.py:NAME")
    search.add_argument("--particles", dest="n_particles", type=int, metavar="N", help="size of the first swarm")
    search.add_argument("--constraints", action="append", metavar="FILE.py:NAME", help="what a point must satisfy")
    search.add_argument("--polish", action="store_true", default=None, help="finish with a local search")
    search.add_argument("--asynchronous", action="store_true", default=None, help="do not wait for whole generations")


def run(options: argparse.Namespace) -> int:
    """Run `minimize` and report its result."""
    from paoswarm.cli.objective import Source
    from paoswarm.cli.outcome import carry_out, progress_wanted
    from paoswarm.cli.unknowns import read_unknowns
    from paoswarm.optimize.minimize import minimize
    from paoswarm.storage.store import Store

    source, unknowns = Source.of(options), read_unknowns(options)
    fun = source.load(unknowns)
    names = ("maxiter", "maxfev", "time_limit", "target", "tol", "timeout", "workers", "n_particles")
    arguments = given_of(options, *names, "method", "polish", "asynchronous", "vectorized") | source.more()
    if options.store is not None:
        arguments["store"] = Store(options.store, trust=options.trust, origin=source.origin)
    progress = progress_wanted(options)
    return carry_out(options, lambda: minimize(fun, unknowns.given, rng=options.seed, progress=progress, **arguments))
