"""What the page may ask for: names, and the functions that answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paoswarm.explorer.run_room import RunRoom
from paoswarm.explorer.swarm_room import SwarmRoom
from paoswarm.explorer.swarm_settings import describe_controls

Answer = dict[str, Any]


class Answers:
    """The answers of both rooms.

    Parameters
    ----------
    stores : sequence of path
        The files of stored runs; no other file is ever read.
    """

    def __init__(self, stores: Sequence[Path] = ()) -> None:
        self._runs = [RunRoom(path) for path in stores]
        swarm = SwarmRoom()
        self._table: dict[str, Callable[[Answer], Answer]] = {
            "controls": self._controls,
            "swarm": swarm.show,
            "contours": swarm.contours,
            "run": lambda given: self._run(given).show(given),
            "pair": lambda given: self._run(given).pair(given),
            "posterior": lambda given: self._run(given).posterior(given),
        }

    def __contains__(self, what: str) -> bool:
        return what in self._table

    def answer(self, what: str, given: Answer) -> Answer:
        """Return the answer to a request; raise a ValueError if it makes no sense."""
        with np.errstate(all="ignore"):
            return self._table[what](given)

    def _controls(self, given: Answer) -> Answer:
        return {**describe_controls(), "runs": [{"name": run.path.name, "path": str(run.path)} for run in self._runs]}

    def _run(self, given: Answer) -> RunRoom:
        number = given.get("run", 0)
        if not isinstance(number, int) or not 0 <= number < len(self._runs):
            raise ValueError("there is no such run; start `paoswarm explore run.paoswarm`")
        return self._runs[number]
