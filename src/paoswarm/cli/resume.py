"""``paoswarm resume``: continue a stored run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paoswarm.cli.options import add_command, add_draws, add_output, add_trust, given_of

if TYPE_CHECKING:
    from paoswarm.cli.objective import Source

_EXAMPLES = """examples:
  paoswarm resume run.paoswarm                  a run of paoswarm minimize or paoswarm sample
  paoswarm resume run.paoswarm --maxfev 20000   with a larger limit
  paoswarm resume run.paoswarm --fun model.py:cost
      a run that was started in Python with store="run.paoswarm"

A file of paoswarm minimize or sample names its function or program, which is run. Of a file that is not your own, say
yourself what to run.
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = _EXAMPLES
    parser.add_argument("store", type=Path, help="the file that was given as store to minimize or sample")
    parser.add_argument("--fun", metavar="FILE.py:FUNCTION", help="the function; by default as the file says")
    parser.add_argument(
        "--constraints", action="append", metavar="FILE.py:NAME", help="its constraints; by default as the file says"
    )
    limits = parser.add_argument_group("new limits, and how to run")
    limits.add_argument("--maxiter", type=float, metavar="N", help="most generations")
    limits.add_argument("--maxfev", type=float, metavar="N", help="most evaluations")
    limits.add_argument("--time-limit", type=float, metavar="SECONDS", help="stop after this time")
    limits.add_argument("--timeout", type=float, metavar="SECONDS", help="kill an evaluation after this time")
    limits.add_argument("--workers", type=int, metavar="N", help="number of processes (default: as before)")
    add_trust(limits)
    add_command(parser)
    add_output(parser)
    add_draws(parser)


def run(options: argparse.Namespace) -> int:
    """Continue the run and report its result."""
    from paoswarm.cli.draws_file import check_draws, write_draws
    from paoswarm.cli.outcome import carry_out, progress_wanted
    from paoswarm.resume_run import resume
    from paoswarm.sampling.posterior import Posterior
    from paoswarm.storage.store import Store

    check_draws(options.draws)
    source = _source(options)
    _check_maxfev(options)
    store = Store(options.store, trust=options.trust, origin=source.origin)
    changes = given_of(options, "maxiter", "maxfev", "time_limit", "timeout", "workers") | source.more()
    fun, progress = source.load(), progress_wanted(options)

    def write(result: Any) -> None:
        if isinstance(result, Posterior):
            write_draws(result, options.draws)
        elif options.draws is not None:
            raise ValueError(f"--draws: {options.store} is a run of minimize, which has no draws")

    return carry_out(options, lambda: resume(store, fun, **changes, progress=progress), write)


def _check_maxfev(options: argparse.Namespace) -> None:
    """Raise if a new limit is below what the file holds: who gives it means that many more."""
    from paoswarm.storage.store import Store
    from paoswarm.storage.watch import Progress

    if options.maxfev is None or Store(options.store).run().function == "minimize_many":  # a limit of each run
        return
    held = Progress(options.store).update().evaluations
    if options.maxfev < held:
        limit = f"--maxfev {options.maxfev:g}"
        raise ValueError(
            f"{options.store} holds {held} evaluations already, which {limit} includes: give more than {held}"
        )


def _source(options: argparse.Namespace) -> Source:
    """What the options name, or else the file."""
    from paoswarm.cli.objective import Source, command_settings
    from paoswarm.storage.store import Store

    command = command_settings(options)
    if options.fun is not None and command is not None:
        raise ValueError("give either --fun or --command")
    if options.fun is not None or command is not None:
        return Source(str(Path.cwd()), options.fun, command, options.constraints, options.limit)
    source = Source.recorded(Store(options.store).recorded_origin(), options.store)
    source = source if options.constraints is None else source._replace(constraints=options.constraints)
    print(f"paoswarm: {options.store} goes on with {source.text}", file=sys.stderr)
    return source
