"""What `uncertainty` returns: standard errors, correlations and intervals, with a table to read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from paoswarm._checks import counted, probability
from paoswarm._extras import need
from paoswarm._text import block, first_rows, remark, rounded, shortened, table
from paoswarm.core.arrays import Floats

_STRONG = 0.9  # a correlation that the table mentions
_MOST_PAIRS = 6  # of them
_PREDICTION_STEP = 0.1  # standard errors


@dataclass(frozen=True, eq=False, repr=False)
class FitUncertainty:
    """How sure a fit is. `uncertainty` makes one; print it for a table.

    Attributes
    ----------
    x : array (d,)
        The minimum at which the errors are taken. It differs from the given point if that was not quite the minimum.
        Only the continuous unknowns are part of it.
    held : dict
        Values of whole numbers, choices and fixed variables of a space, by name. They are not fitted: the errors hold
        if these are right.
    is_log : array of bool (d,)
        Which unknowns are logarithmic. Their intervals are symmetric in the logarithm.
    fun : float
        The value there.
    names : tuple of str
        The names of the unknowns.
    standard_errors : array (d,)
        Standard errors: roots of the diagonal of ``covariance``. NaN for an unknown that lies on its bound, and where
        ``x`` is no minimum; infinite for an unknown that the data do not determine.
    covariance, correlations : array (d, d)
        Of the estimates. Not finite for the same unknowns.
    hessian : array (d, d)
        Second derivatives of the function; of a fit ``2 J' J``, without the second derivatives of the residuals.
        NaN for unknowns that are not ``free``.
    free : array of bool (d,)
        Which unknowns were varied: those that are not on a bound and have an effect.
    variance : float or None
        Variance of one datum, given or estimated; None for a likelihood.
    n_data, degrees_of_freedom : int or None
        Number of data, and what is left of it after the unknowns; None if no variance was estimated.
    condition_number : float
        Of the correlations of the free unknowns, so it does not depend on units. Large means that some combination of
        unknowns is much less certain than the others.
    shift : array (d,)
        How far ``x`` is from the given point, in standard errors.
    rises : array (d, 2)
        A check: how far the function rises one standard error below and above ``x``, along the line of most likely
        values of the other unknowns. One for a parabola; NaN beyond the bounds.
    warnings : tuple of str
        Reasons not to trust the errors; empty if there are none.
    notes : tuple of str
        What else to know.
    profile : array (d, 2) or None
        Ends of the profile intervals, if they were asked for.
    profile_level : float or None
        Their level.
    n_evaluations, n_failed : int
        Evaluated points, and those of them that failed.
    parameters : lmfit.Parameters or None
        The fit for lmfit, with standard errors and correlations, of expressions too. If the run had ``Parameters``.
    """

    x: Floats
    fun: float
    names: tuple[str, ...]
    standard_errors: Floats
    covariance: Floats
    hessian: Floats
    free: Any
    variance: float | None
    n_data: int | None
    degrees_of_freedom: int | None
    condition_number: float
    shift: Floats
    rises: Floats
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    n_evaluations: int
    n_failed: int
    kind: str
    is_log: NDArray[np.bool_]
    held: dict[str, Any]
    parameters: Any
    _root: Floats  # the covariance is this times its transpose
    _room: Floats  # how far x is from its bounds
    _point: Callable[[Floats], Any]  # what the user's functions get for coordinates
    profile: Floats | None = None
    profile_level: float | None = None

    @property
    def correlations(self) -> Floats:
        """Correlations of the estimates."""
        scale = self.standard_errors
        with np.errstate(invalid="ignore", divide="ignore"):
            correlations: Floats = self.covariance / scale[:, None] / scale
        np.fill_diagonal(correlations, np.where(np.isfinite(scale), 1.0, np.nan))
        return correlations

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Ends of the intervals ``x -+ q * standard_errors``.

        ``q`` is a quantile of Student's distribution if the variance was estimated, else of the normal distribution.
        The interval of a logarithmic unknown is ``x`` divided and multiplied by ``exp(q * standard_error / x)``.

        Examples
        --------
        >>> import numpy as np
        >>> import paoswarm as ps
        >>> data = np.array([1.0, 2.0, 3.0, 4.0])
        >>> fit = ps.uncertainty([2.5], sum_of_squares=lambda x: ((data - x) ** 2).sum(), n_data=4)
        >>> np.round(fit.interval(), 3)
        array([[0.446],
               [4.554]])
        """
        reach = reach_of(probability("level", level), self.degrees_of_freedom) * self.standard_errors
        with np.errstate(over="ignore"):
            factor = np.exp(np.where(self.is_log, reach, 0.0) / np.where(self.is_log, self.x, 1.0))
        low = np.where(self.is_log, self.x / factor, self.x - reach)
        return low, np.where(self.is_log, self.x * factor, self.x + reach)

    def to_dataframe(self, level: float = 0.95) -> Any:
        """Convert to a ``pandas.DataFrame`` with a row for each unknown. Needs pandas.

        Its columns are ``estimate``, ``standard_error``, the ends ``low`` and ``high`` of the intervals at the level,
        and ``profile_low`` and ``profile_high`` if profile intervals were asked for.
        """
        pandas = need("pandas", extra="dataframe", user="to_dataframe")
        low, high = self.interval(level)
        columns = {"estimate": self.x, "standard_error": self.standard_errors, "low": low, "high": high}
        if self.profile is not None:
            columns |= {"profile_low": self.profile[:, 0], "profile_high": self.profile[:, 1]}
        return pandas.DataFrame(columns, index=pandas.Index(self.names, name="parameter"))

    def to_xarray(self) -> Any:
        """Convert to an ``xarray.Dataset`` along ``parameter``; covariance and correlations have ``other``, too.

        Needs xarray.
        """
        xarray = need("xarray", extra="xarray", user="to_xarray")
        square = ("parameter", "other")
        return xarray.Dataset(
            {
                "estimate": ("parameter", self.x),
                "standard_error": ("parameter", self.standard_errors),
                "covariance": (square, self.covariance),
                "correlation": (square, self.correlations),
            },
            coords={"parameter": list(self.names), "other": list(self.names)},
            attrs={"kind": self.kind, "fun": self.fun, "warnings": list(self.warnings), "notes": list(self.notes)},
        )

    def predict(self, model: Callable[[Floats], ArrayLike]) -> tuple[Floats, Floats]:
        """What a model predicts, and the standard error of that, as far as it comes from the unknowns.

        Parameters
        ----------
        model : callable
            ``model(x) -> array`` of any shape, for one point as the fitted function gets it: an array, or a dict of
            all values by name. It is called ``2 d + 1`` times.

        Returns
        -------
        values, errors : arrays
            The model at ``x``, and the root of the diagonal of ``G C G'``, with ``G`` its derivatives with respect to
            the unknowns and ``C`` the covariance. For a new measurement, add its ``variance`` to the squares.
        """
        if not np.isfinite(self.covariance[np.ix_(self.free, self.free)]).all():
            raise ValueError("predictions need finite standard errors of all unknowns that are not on a bound")
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(self._root == 0, np.inf, self._room[:, None] / np.abs(self._root)).min(axis=0)
        steps = np.minimum(_PREDICTION_STEP, reach) * self._root
        at = np.where(self.is_log, np.log(np.where(self.is_log, self.x, 1.0)), self.x)
        centre = np.asarray(model(self._point(at)), dtype=float)
        square = np.zeros_like(centre)
        for direction, step in zip(self._root.T, steps.T, strict=True):
            both = (np.asarray(model(self._point(u)), dtype=float) for u in (at + step, at - step))
            slope = np.subtract(*both) / 2
            square += (slope * np.linalg.norm(direction) / np.linalg.norm(step)) ** 2
        return centre, np.sqrt(square)

    def __str__(self) -> str:
        said = [f"Warning: {text}" for text in self.warnings] + [f"Note: {text}" for text in self.notes]
        failed = f", {self.n_failed} of them failed" if self.n_failed else ""
        cost = f"It took {counted(self.n_evaluations, 'evaluation')}{failed}."
        return "\n".join([*self._headlines(), *self.table(), *self.below(), cost, *said])

    def table(self) -> list[str]:
        """Estimates, errors and intervals, in lines."""
        return aligned([self._header(), *self._rows()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows, more = first_rows(self._rows(), "unknowns")
        said = [f"Warning: {text}" for text in self.warnings] + [f"Note: {text}" for text in self.notes]
        return block(
            " ".join(f"{line}." for line in self._headlines()),
            table(rows, self._header()),
            more,
            *map(remark, [*self.below(), *said]),
        )

    def _headlines(self) -> list[str]:
        value = f"{self.kind[0].upper()}{self.kind[1:]} {self.fun:.6g}"
        if self.variance is None:
            return [value]
        deviation = f"Standard deviation of a datum {math.sqrt(self.variance):.4g}"
        if self.degrees_of_freedom is None:
            return [value, f"{deviation}, given"]
        return [f"{value} of {self.n_data} data with {self.degrees_of_freedom} degrees of freedom", deviation]

    def _header(self) -> tuple[str, ...]:
        level = "" if self.profile_level is None else f"{100 * self.profile_level:g} % profile interval"
        return ("", "estimate", "std. error", "95 % interval", *([level] if level else []))

    def _rows(self) -> list[tuple[str, ...]]:
        low, high = self.interval(0.95)
        rows: list[tuple[str, ...]] = []
        for i, (name, value, error) in enumerate(zip(self.names, self.x, self.standard_errors, strict=True)):
            if math.isfinite(error):
                row = [name, rounded(value, error), f"{error:#.2g}".rstrip(".")]
                row.append(_range(low[i], high[i], value, error, is_log=bool(self.is_log[i])))
            else:
                why = "not determined" if math.isinf(error) else "no error" if self.free[i] else "on its bound"
                row = [name, f"{value:.6g}", why, ""]
            if self.profile is not None:
                below, above = self.profile[i]
                ends = _range(below, above, value, error, is_log=bool(self.is_log[i]))
                row.append(ends if np.isfinite(error) else "")
            rows.append(tuple(row))
        blank = ("",) * (len(self._header()) - 3)
        return rows + [(name, _shown(value), "held", *blank) for name, value in self.held.items()]

    def below(self) -> list[str]:
        """Strong correlations, and the condition number, in lines."""
        c = np.triu(np.nan_to_num(self.correlations), 1)
        pairs = np.argwhere(np.abs(c) >= _STRONG)
        pairs = pairs[np.argsort(-np.abs(c[tuple(pairs.T)]), kind="stable")]
        shown = [f"{self.names[i]} and {self.names[j]} {_correlation(c[i, j])}" for i, j in pairs[:_MOST_PAIRS]]
        shown += [f"{len(pairs) - _MOST_PAIRS} more"] if len(pairs) > _MOST_PAIRS else []
        lines = [f"Strong correlations: {', '.join(shown)}."] if shown else []
        if math.isfinite(self.condition_number):
            lines.append(f"Condition number {self.condition_number:.2g}.")
        return lines


def aligned(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Rows of cells in lines; the first and the last column are words."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  " + "  ".join(f"{cell:<{w}}" if k in (0, len(row) - 1) else f"{cell:>{w}}" for k, (cell, w) in cells)
        for row in rows
        for cells in [list(enumerate(zip(row, widths, strict=True)))]
    ]
    return [line.rstrip() for line in lines]


def reach_of(level: float, degrees_of_freedom: int | None) -> float:
    """How many standard errors an interval reaches to each side."""
    upper = (1 + level) / 2
    return float(ndtri(upper) if degrees_of_freedom is None else stdtrit(degrees_of_freedom, upper))


def _range(low: float, high: float, value: float, error: float, *, is_log: bool) -> str:
    """An interval with digits that the error supports; of a logarithm it is a share of each end."""
    errors = (error * low / value, error * high / value) if is_log else (error, error)
    return f"{rounded(low, errors[0])} to {rounded(high, errors[1])}"


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else shortened(str(value), 30)


def _correlation(c: float) -> str:
    """A correlation, with enough digits to be different from one."""
    digits = 3 if abs(c) < 0.9995 else min(12, 1 - math.floor(math.log10(max(1 - abs(c), 1e-12))))
    return f"{c:.{digits}f}"
