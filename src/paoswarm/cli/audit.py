"""``paoswarm audit``: whether methods profit from an optimum at the centre."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from paoswarm.cli.study import KEPT

_EXAMPLES = """examples:
  paoswarm audit PAO PSO DE
  paoswarm audit PSO:paper --dim 20 --runs 50 --out audit
"""


def fill(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.epilog = _EXAMPLES
    parser.add_argument("methods", nargs="+", metavar="METHOD", help="PAO, PSO, PSO:paper, ...")
    parser.add_argument("--dim", type=int, default=8, help="dimension (default: 8)")
    parser.add_argument("--runs", type=int, default=30, help="number of runs on each problem (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="seed of all runs (default: 1)")
    parser.add_argument("--out", type=Path, help="folder for the runs, to continue an interrupted audit")
    parser.add_argument("--workers", type=int, default=-1, help="number of processes (default: one per core)")
    parser.set_defaults(kept=KEPT)


def run(options: argparse.Namespace) -> None:
    """Run the audit and print its verdicts."""
    from paoswarm.study.audit import audit_study, check_runs, final_errors, judge
    from paoswarm.study.config import method_or_adapter

    check_runs(options.runs)
    methods = {name: method_or_adapter(name) for name in options.methods}
    study = audit_study(methods, {"runs": options.runs, "seed": options.seed}, options.dim)
    with TemporaryDirectory() as temporary:
        results = study.run(options.out or temporary, workers=options.workers, progress=sys.stderr.isatty())
    for name in methods:
        print(judge(final_errors(results), name, name))
