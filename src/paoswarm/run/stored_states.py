"""Where runs on a compiled engine stand, in a store: when it is recorded, and how runs go on from it."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.engines.engines import CompiledEngine
from paoswarm.engines.program import Program, State
from paoswarm.evaluate.interrupts import uninterrupted
from paoswarm.methods.schedules import is_constant
from paoswarm.space.space import Space
from paoswarm.store.identity import OtherRun
from paoswarm.store.journal import Journal
from paoswarm.store.log import DamagedStore
from paoswarm.store.states import Saved

_SECONDS = 5.0  # between two records, at least
_SHARE = 0.05  # of the time that may be spent on them
_CHECKED = 8  # points of the first swarm by which a changed function is recognised


class Standing(NamedTuple):
    """Where runs stand after a generation."""

    generation: int
    state: State
    columns: list[Floats]  # their best values after every generation: parts (runs, k) of the history


class StoredStates:
    """Records where runs stand.

    Parameters
    ----------
    journal : Journal
    engine : CompiledEngine
    program : Program
    space : Space
        Points are recorded as the user knows them.
    """

    def __init__(self, journal: Journal, engine: CompiledEngine, program: Program, space: Space) -> None:
        self._journal, self._engine, self._program, self._space = journal, engine, program, space
        self._generation = -1  # that was recorded last
        self._due = time.monotonic() + _SECONDS

    def restore(self, runs: int) -> Standing | None:
        """Where the recorded runs stand; None if nothing is recorded yet.

        Raises `OtherRun` if the function has changed, or if these limits lead to other runs.
        """
        self._journal.confirm(self._measure)
        saved = self._journal.restore()
        if saved is None:
            return None
        state = self._checked(saved, runs)
        self._check_limits(int(np.max(state.nit)))
        self._generation = saved.generation
        return Standing(saved.generation, state, [saved.history])

    def begin(self, standing: Standing) -> None:
        """Record some points of the first swarm, unless it has been done."""
        if not self._journal.resumed:
            points = np.asarray(standing.state.x[0], dtype=float)[:_CHECKED]
            self._record(points)

    @property
    def last_complete(self) -> int:
        """The last generation in which all particles move. The one after it would be another with larger limits."""
        p = self._program
        return p.generations if p.n_moved(p.generations) == p.n_particles else p.generations - 1

    def keep(self, standing: Standing, *, is_last: bool) -> None:
        """Record where runs stand, if there was no record for some seconds, or if this is the last occasion."""
        is_new = self._generation < standing.generation <= self.last_complete
        if not is_new or not (is_last or time.monotonic() >= self._due):
            return
        with uninterrupted(blocked_in_children=False):
            self._save(standing)

    def _save(self, standing: Standing) -> None:
        began = time.monotonic()
        state = standing.state
        arrays = {name: np.asarray(array) for name, array in state._asdict().items()}
        run = int(np.argmin(arrays["leader_value"]))
        best = arrays["best"][run, [int(np.argmin(arrays["best_value"][run]))]].astype(float)
        self._record(best)
        standing.columns[:] = [np.concatenate(standing.columns, axis=1)]
        counts = int(arrays["nfev"].sum()), int(arrays["n_failed"].sum())
        self._journal.save(standing.generation, arrays, standing.columns[0], *counts)
        self._generation = standing.generation
        now = time.monotonic()
        self._due = now + max(_SECONDS, (now - began) / _SHARE)

    def _record(self, points: Floats) -> None:
        self._journal.record_points(self._space.rows(points), self._engine.evaluate(points))

    def _measure(self, points: Floats) -> list[float | str | None]:
        """Values for the comparison with recorded ones."""
        values = self._engine.evaluate(self._space.coordinates(points)).tolist()
        return ["returned NaN" if value != value else value for value in values]

    def _checked(self, saved: Saved, runs: int) -> State:
        """The recorded state, if its arrays fit the program."""
        p = self._program
        n, d = p.n_particles, p.n_dimensions
        shapes: dict[str, tuple[int, ...]] = {"x": (runs, n, d), "v": (runs, n, d), "best": (runs, n, d)}
        shapes |= dict.fromkeys(("value", "best_value", "age"), (runs, n))
        found = {name: array.shape for name, array in saved.arrays.items()}
        if found != {name: shapes.get(name, (runs,)) for name in State._fields}:
            raise DamagedStore(
                f"{self._journal.path}: the recorded state does not fit the run. The file was not changed: choose "
                "another store"
            )
        return State(**saved.arrays)

    def _check_limits(self, nit: int) -> None:
        """Raise if the recorded runs are longer than these limits allow, or if schedules depend on other limits."""
        path, recorded = self._journal.path, self._journal.limits
        if nit > self.last_complete:
            raise OtherRun(
                f"{path} holds {nit} generations, and these limits allow {self.last_complete}. Runs on a compiled "
                "engine cannot go back: give larger limits, or choose another store"
            )
        now = self._journal.limits_of_call
        changed = [name for name in ("maxiter", "maxfev", "polish") if recorded.get(name) != now.get(name)]
        is_scheduled = not all(map(is_constant, self._program.method.hyperparameters))
        if changed and is_scheduled:
            name = changed[0]
            raise OtherRun(
                f"{path} holds runs with {name}={recorded.get(name)}, but this call has {name}={now.get(name)}: the "
                "method has schedules that depend on it, so these are other runs. Choose another store"
            )
