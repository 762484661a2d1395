"""Some of the runs of `minimize_many`, evaluated together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paoswarm._extras import ProgressBar
from paoswarm.core.arrays import Floats
from paoswarm.core.swarm import read_only
from paoswarm.evaluation.evaluator import Evaluator
from paoswarm.evaluation.known_points import KnownPoints
from paoswarm.optimize.callback import Notify
from paoswarm.optimize.exchange import Numbering
from paoswarm.optimize.loop import Ends, drive, drive_together, run
from paoswarm.optimize.many_result import ManyResult, together
from paoswarm.optimize.optimizer import Optimizer
from paoswarm.optimize.stopping import Limits, Status


class Block:
    """Some runs that are evaluated together, and their history of best values.

    Parameters
    ----------
    optimizers : list of Optimizer
        One for all of these runs, or one for each.
    numbers : range
        Which runs these are.
    n_runs : int
        The number of all runs.
    earlier : list of Block
        Blocks that are done, for the progress bar.
    bar : ProgressBar
    n_points : int or None
        How many points the space has, if each run recalls those that it has evaluated.
    """

    def __init__(
        self,
        optimizers: list[Optimizer],
        numbers: range,
        n_runs: int,
        earlier: list[Block],
        bar: ProgressBar,
        n_points: int | None = None,
    ) -> None:
        self.optimizers = optimizers
        self.ends: list[Ends] = []
        self.best: list[list[Floats]] = [[] for _ in optimizers]  # after every generation
        self.nit, self.nfev = ([np.zeros(one.batch, dtype=np.int64) for one in optimizers] for _ in range(2))
        parts = [np.array(numbers)] if optimizers[0].batch else [np.array(r) for r in numbers]
        self._numberings = [Numbering(n_runs, part) for part in parts]
        self._known = None if n_points is None else [KnownPoints(n_points) for _ in optimizers]
        self._bar = bar
        self._best_before = min((block.lowest for block in earlier), default=np.inf)
        self._failed_before = sum(block.n_failed for block in earlier)

    @property
    def lowest(self) -> float:
        """The best value of all runs."""
        known = [one.shown_value.min() for one in self.optimizers if one.swarm is not None]
        return float(min(known, default=np.inf))

    @property
    def n_failed(self) -> int:
        """Failed evaluations of all runs."""
        return int(sum(one.n_failed.sum() for one in self.optimizers))

    @property
    def is_cut_short(self) -> bool:
        """Whether an interrupt or the loss of the workers ended a run."""
        return any(np.isin(ends.status, [Status.INTERRUPTED, Status.CRASHED]).any() for ends in self.ends)

    def run(self, limits: Limits, evaluate: Evaluator, notify: Notify[Block], *, is_stored: bool) -> None:
        """Run all to their ends; after every generation of all, ``notify`` may end them."""
        is_alone = len(self.optimizers) == 1

        def after_round() -> Status | None:
            return None if evaluate.replayed else notify(self)

        runs = []
        for i, (optimizer, best) in enumerate(zip(self.optimizers, self.best, strict=True)):
            if optimizer.swarm is not None:  # a run that is continued
                best.append(optimizer.shown_value)

            def after_generation(optimizer: Optimizer, i: int = i, best: list[Floats] = best) -> Status | None:
                best.append(optimizer.shown_value)
                moved = np.asarray(True) if optimizer.moved is None else optimizer.moved
                self.nit[i] = np.where(moved, optimizer.nit, self.nit[i])
                self.nfev[i] = np.where(moved, optimizer.nfev, self.nfev[i])
                if self._bar.is_shown:
                    failed = self._failed_before + self.n_failed
                    self._bar.show(best=min(self._best_before, self.lowest), failed=failed or None)
                return after_round() if is_alone else None

            # One run may fail as long as others do not.
            numbering = self._numberings[i] if is_stored else None
            one = run(optimizer, limits, after_generation, may_fail=not is_alone, numbering=numbering)
            runs.append(one)
        if is_alone:
            self.ends = [drive(runs[0], evaluate, None if self._known is None else self._known[0])]
        else:
            self.ends = drive_together(runs, evaluate, after_round, self._known)
        if all((ends.status == Status.FAILED).all() for ends in self.ends):
            raise evaluate.explain_total_failure()


def intermediate(block: Block) -> ManyResult:
    """What a callback gets to see of all runs."""

    def over_runs(parts: list[Floats] | list[NDArray[np.int64]]) -> NDArray[np.float64]:
        return np.concatenate([np.atleast_1d(part) for part in parts])

    swarms = [one.swarm for one in block.optimizers if one.swarm is not None]
    return ManyResult(
        x=np.concatenate([np.atleast_2d(one.best.x) for one in block.optimizers]),
        fun=over_runs([one.shown_value for one in block.optimizers]),
        nit=over_runs(block.nit),
        nfev=over_runs(block.nfev),
        n_failed=over_runs([one.n_failed for one in block.optimizers]),
        swarm=together([read_only(swarm) for swarm in swarms]),
        **block.optimizers[0].shown,
    )
