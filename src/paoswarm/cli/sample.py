"""``paoswarm sample``: posterior draws and the evidence."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from paoswarm.cli.objective import Source
from paoswarm.cli.options import add_objective, add_running, add_unknowns, given_of, read_unknowns
from paoswarm.cli.outcome import carry_out, progress_wanted
from paoswarm.evaluation.engines import EngineDown
from paoswarm.sampling.posterior import Posterior
from paoswarm.sampling.sample import sample
from paoswarm.storage.store import Store

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
    parser.set_defaults(errors=(EngineDown,))


def add_draws(parser: argparse.ArgumentParser) -> None:
    """Add where draws go."""
    parser.add_argument("--draws", metavar="FILE", help="write draws of equal weight, as .csv or .npz")


def run(options: argparse.Namespace) -> int:
    """Run `sample` and report its result."""
    check_draws(options.draws)
    source, unknowns = Source.of(options), read_unknowns(options, prior=True)
    fun = source.load(unknowns)
    arguments = given_of(options, "n_effective", "n_particles", "maxfev", "timeout", "workers", "vectorized")
    if options.store is not None:
        arguments["store"] = Store(options.store, trust=options.trust, origin=source.origin)
    progress = progress_wanted(options)

    def call() -> Posterior:
        return sample(fun, unknowns.given, rng=options.seed, progress=progress, **arguments)

    return carry_out(options, call, lambda posterior: write_draws(posterior, options.draws))


def check_draws(path: str | None) -> None:
    """Raise if the name does not say how to write draws."""
    if path is not None and Path(path).suffix not in (".csv", ".npz"):
        raise ValueError(f"--draws must end in .csv or .npz, got {path}")


def write_draws(posterior: Posterior, path: str | None) -> None:
    """Write draws of equal weight, with the names of the parameters."""
    if path is None:
        return
    if path.endswith(".csv"):
        np.savetxt(path, posterior.draws, fmt="%.17g", delimiter=",", header=",".join(posterior.names), comments="")
    else:
        known = {"draws": posterior.draws, "log_likelihood": posterior.log_likelihood, "log_prior": posterior.log_prior}
        arrays: dict[str, Any] = {name: values for name, values in known.items() if values is not None}
        np.savez(path, names=np.array(posterior.names), **arrays)
