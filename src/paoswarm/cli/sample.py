"""``paoswarm sample``: posterior draws and the evidence."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from paoswarm.cli.options import add_draws, add_objective, add_running, add_unknowns, given_of

if TYPE_CHECKING:
    from paoswarm.sampling.posterior import Posterior

_EXAMPLES = """examples:
  paoswarm sample model.py:log_likelihood --space space.toml --seed 1
  paoswarm sample model.py:log_likelihood --bounds level=0,10 rate=1e-3,1e3,log --draws draws.csv
  paoswarm sample --command "./chi2 {level} {rate}" --factor -0.5 --space space.toml --workers 4 --store run.paoswarm
      a program that prints chi squared; its half with a minus is the log likelihood
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = _EXAMPLES
    add_objective(parser, "the log likelihood")
    add_unknowns(parser, "the prior: variables as for minimize, and entries prior = { normal = [mean, sd] }")
    limits = add_running(parser)
    limits.add_argument("--n-effective", type=int, metavar="N", help="wanted effective sample size (default: 2000)")
    parser.add_argument("--particles", dest="n_particles", type=int, metavar="N", help="number of first draws")
    add_draws(parser)


def run(options: argparse.Namespace) -> int:
    """Run `sample` and report its result."""
    from paoswarm.cli.draws_file import check_draws, write_draws
    from paoswarm.cli.objective import Source
    from paoswarm.cli.outcome import carry_out, progress_wanted
    from paoswarm.cli.unknowns import read_unknowns
    from paoswarm.sampling.sample import sample
    from paoswarm.storage.store import Store

    check_draws(options.draws)
    if options.limit:
        raise ValueError("--limit is for minimize; a prior says what is allowed")
    source, unknowns = Source.of(options), read_unknowns(options, prior=True)
    fun = source.load(unknowns)
    arguments = given_of(options, "n_effective", "n_particles", "maxfev", "timeout", "workers", "vectorized")
    if options.store is not None:
        arguments["store"] = Store(options.store, trust=options.trust, origin=source.origin)
    progress = progress_wanted(options)

    def call() -> Posterior:
        return sample(fun, unknowns.given, rng=options.seed, progress=progress, **arguments)

    return carry_out(options, call, lambda posterior: write_draws(posterior, options.draws))
