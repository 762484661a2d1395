"""What posterior draws say about data: predictions, new data, and log densities of each datum, without simulations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from paoswarm.core.arrays import Floats
from paoswarm.evaluate.comparison import DataComparison
from paoswarm.least_squares.marginal import draw_nuisances

_SAME = 1e-9  # widths of all points within which two are the same


@dataclass(frozen=True, eq=False)
class SimulatedDraws:
    """Outputs of the simulator at weighted draws, and how they are compared with data.

    Attributes
    ----------
    comparison : DataComparison
    outputs : array (n, m)
        The data's part of the outputs; NaN at draws that were not simulated.
    """

    comparison: DataComparison
    outputs: Floats

    @classmethod
    def at(cls, places: Floats, points: Floats, outputs: Floats, comparison: DataComparison) -> SimulatedDraws:
        """Those at draws with these places, of points that were simulated."""
        widths = np.ptp(points, axis=0)
        widths[widths == 0] = 1.0
        away, nearest = KDTree(points / widths).query(places / widths)
        found = outputs[nearest, : outputs.shape[1] - comparison.beliefs.count]
        return cls(comparison, np.where(np.reshape(away < _SAME, (-1, 1)), found, np.nan))

    def predictions(self, rows: NDArray[np.intp], rng: np.random.Generator, *, noise: bool) -> Any:
        """Expectations of the data at some draws, or new data, in the form of the data with an axis in front."""
        predicted, laws = self._drawn(rows, rng)
        loss = self._loss
        if noise:
            for group, law in zip(loss.groups, laws, strict=True):
                kept = loss.has_datum[group.rows]
                if np.ndim(getattr(law, "sigma", 0.0)) == 1:  # known where there is a datum
                    predicted[:, group.rows][:, ~kept] = np.nan
                else:
                    kept = np.ones(len(kept), dtype=bool)
                predicted[:, group.rows][:, kept] = law.draw(predicted[:, group.rows][:, kept], rng)
        return self.comparison.split(predicted)

    def log_densities(self, rows: NDArray[np.intp], rng: np.random.Generator) -> dict[str, Floats]:
        """Log density of each datum at some draws, by output; ``(k, n)`` without those that are missing, if any are."""
        predicted, laws = self._drawn(rows, rng)
        loss, found = self._loss, {}
        for group, law in zip(loss.groups, laws, strict=True):
            data = loss.own(group, loss.data)
            each = law.log_densities(loss.own(group, predicted.T).T, data)
            found[group.name or "data"] = self._shaped(group.name, each)
        return found

    def groups(self, rows: NDArray[np.intp], rng: np.random.Generator) -> dict[str, dict[str, Floats]]:
        """What ArviZ wants to know about data: new ones, and log densities, by output."""
        new = self.predictions(rows, rng, noise=True)
        return {
            "posterior_predictive": new if isinstance(new, dict) else {"data": new},
            "log_likelihood": self.log_densities(rows, rng),
        }

    @property
    def data(self) -> dict[str, Floats]:
        """The data by output, without missing ones."""
        loss = self._loss
        return {
            group.name or "data": self._shaped(group.name, loss.own(group, loss.data)[None])[0] for group in loss.groups
        }

    def _shaped(self, name: str, rows: Floats) -> Floats:
        """Rows of numbers of an output in its form, unless data are missing."""
        outputs = self.comparison.outputs
        shape = next((part.shape for part in outputs.parts if part.name == name), ()) if outputs is not None else ()
        return rows.reshape(len(rows), *shape) if np.prod(shape, dtype=int) == rows.shape[1] else rows

    def _drawn(self, rows: NDArray[np.intp], rng: np.random.Generator) -> tuple[Floats, list[Any]]:
        outputs = self.outputs[rows]
        if np.isnan(outputs[:, self._loss.has_datum]).any():
            raise ValueError("some draws were not simulated, so their outputs are not known; call predict(simulate)")
        return draw_nuisances(self._loss, outputs, rng)

    @property
    def _loss(self) -> Any:
        return self.comparison.loss(self.outputs.shape[1] + self.comparison.beliefs.count)
