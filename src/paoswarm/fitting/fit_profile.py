"""What `Fit.profile` returns: for each unknown the best fit along its values, its interval and a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paoswarm._checks import choices, counted, probability
from paoswarm._extras import ProgressBar
from paoswarm._text import block, paragraph, remark, rounded, table
from paoswarm.core.arrays import Floats
from paoswarm.evaluate.call_options import CallOptions, Workers
from paoswarm.evaluate.evaluator import Evaluator
from paoswarm.evaluate.interrupts import delays_interrupts
from paoswarm.evaluate.queue import Queue
from paoswarm.fitting.fit_run import ProfileRun
from paoswarm.fitting.fit_uncertainty import aligned, reach_of
from paoswarm.fitting.profile_walk import AT_BOUND, CROSSED, FAILED, GOING, Knot, Walk, crossing, others_on_wall
from paoswarm.fitting.solution import Solution
from paoswarm.fitting.views import plot_profiles
from paoswarm.run.run import drive
from paoswarm.run.stopping import Limits, Status

if TYPE_CHECKING:
    from paoswarm.fitting.fit_result import Fit

IDENTIFIABLE, PRACTICALLY_NOT, STRUCTURALLY_NOT, UNFINISHED = (
    "identifiable",
    "practically not identifiable",
    "structurally not identifiable",
    "not finished",
)
_BUDGET = 60  # simulations for each unknown, times n + 1; most profiles take less than 10
_FLAT = 0.05  # of tau: a profile that is lower does not rise
_FLAT_OVER = 0.05  # widths over which a flat profile was seen to be flat
_TOGETHER = 0.05  # widths by which another unknown changes along a flat profile
_ROUNDING = 1e-24  # of the sum of squares of the outputs: residuals that are none
_MARGIN = 0.02  # of an interval, and of tau: points that are nearer its end are not outside
_SAME = 1e-9  # of tau: rounding


@dataclass(frozen=True, eq=False, repr=False)
class ProfileCurve:
    """The profile of one unknown.

    Attributes
    ----------
    name : str
    estimate : float
        Its best value.
    values : array (k,)
        Values of the unknown, in the user's numbers, ascending.
    roots : array (k,)
        The signed root of the rise there: tau of equation (F10). For a linear model these are standard errors.
    unknowns : dict of array (k,)
        All continuous unknowns along the profile, by name.
    ends : tuple of str
        How the two sides ended: crossed, at the bound, failed (simulations do), lost (the other unknowns could not be
        followed) or going (it was not finished).
    """

    name: str
    estimate: float
    values: Floats
    roots: Floats
    unknowns: dict[str, Floats]
    ends: tuple[str, str]
    is_flat: bool
    is_log: bool
    _sides: tuple[list[Knot], list[Knot]]
    _walls: tuple[tuple[str, ...], tuple[str, ...]]  # names of the others that come to a bound before the ends
    _axis: Axis

    def at(self, root: Any) -> Floats:
        """The values of the unknown where its profile has risen to signed roots; NaN beyond its ends."""
        roots = np.asarray(root, dtype=float)
        found = [math.copysign(1, one) * crossing(self._sides[one > 0], abs(one)) for one in roots.ravel().tolist()]
        return self._axis.numbers(np.array(found)).reshape(roots.shape)

    def interval(self, reach: float) -> tuple[float, float]:
        """The ends at a root; a side that ends at the bound ends there, one that was not finished is NaN."""
        found = self.at([-reach, reach])
        outer = self.values[[0, -1]]
        is_open = [
            end == AT_BOUND and abs(root) < reach for end, root in zip(self.ends, self.roots[[0, -1]], strict=True)
        ]
        low, high = np.where(is_open, outer, found).tolist()
        return low, high

    def verdict(self, reach: float) -> str:
        """Whether the data determine the unknown at this root."""
        if self.is_flat:
            return STRUCTURALLY_NOT
        is_high = np.abs(self.roots[[0, -1]]) >= reach * (1 - _SAME)
        is_crossed = np.array(self.ends) == CROSSED
        if (is_high | is_crossed).all():
            return IDENTIFIABLE
        is_at_bound = np.array(self.ends) == AT_BOUND
        return PRACTICALLY_NOT if (is_at_bound | is_high | is_crossed).all() else UNFINISHED

    @classmethod
    def of(cls, solution: Solution, below: Walk, above: Walk) -> ProfileCurve:
        """Both sides of an unknown, in the user's numbers."""
        cube, i = solution.cube, above.axis
        variables = cube.variables(solution.point, solution.cell)
        sides = [(-1, knot) for knot in below.knots[:0:-1]] + [(1, knot) for knot in above.knots]
        axis = Axis(cube.low[i] + solution.point[i] * cube.width[i], cube.width[i], bool(variables.is_log[i]))
        found = variables.numbers(cube.low + np.array([knot.point for _, knot in sides]) * cube.width)
        found[:, i] = axis.numbers(np.array([side * knot.distance for side, knot in sides]))
        return cls(
            name=variables.names[i],
            estimate=float(variables.x[i]),
            values=found[:, i],
            roots=np.array([side * knot.root for side, knot in sides]),
            unknowns=dict(zip(variables.names, found.T, strict=True)),
            ends=(below.state, above.state),
            is_flat=_is_flat(below, above),
            is_log=axis.is_log,
            _sides=(below.knots, above.knots),
            _walls=(_on_walls(below, variables.names), _on_walls(above, variables.names)),
            _axis=axis,
        )


class Axis(NamedTuple):
    """An unknown in the cube."""

    start: float  # its coordinate at the best point
    width: float
    is_log: bool

    def numbers(self, distances: Floats) -> Floats:
        """The user's numbers at distances, in widths."""
        found: Floats = self.start + distances * self.width
        return np.exp(found) if self.is_log else found


def _is_flat(below: Walk, above: Walk) -> bool:
    """Whether the profile does not rise, as far as no other unknown comes to its bound."""
    extent = 0.0
    for walk in (below, above):
        start = others_on_wall(walk.knots[0], walk)
        inside = [knot for knot in walk.knots if not (others_on_wall(knot, walk) & ~start).any()]
        if inside[-1].root > _FLAT:
            return False
        extent += inside[-1].distance
    return extent >= _FLAT_OVER


def _on_walls(walk: Walk, names: tuple[str, ...]) -> tuple[str, ...]:
    """The other unknowns that come to a bound on the way to the end of an interval."""
    if walk.state != CROSSED:
        return ()
    end = next((knot for knot in walk.knots if knot.root >= (1 - _MARGIN) * walk.reach), walk.knots[-1])
    came = others_on_wall(end, walk) & ~others_on_wall(walk.knots[0], walk)
    return tuple(names[i] for i in np.flatnonzero(came))


class FitProfile(dict[str, ProfileCurve]):
    """Profiles of a fit, by name of the unknown. `Fit.profile` makes one; print it for a table.

    Attributes
    ----------
    names : tuple of str
    level : float
    better : dict or None
        The best point, if a better fit was found on the way: then the profiles are those of that fit.
    fun : float
        The value at the best point.
    nfev, n_failed : int
        Simulations, and those of them that have failed.
    status : int
    message : str
        How it ended.
    remarks : tuple of str
        What to doubt.
    """

    def __init__(self, run: ProfileRun, level: float, degrees_of_freedom: int | None, is_better: bool) -> None:
        solution, ends = run.solution, run.ends
        assert ends is not None
        pairs = zip(run.walks[::2], run.walks[1::2], strict=True)
        super().__init__({(one := ProfileCurve.of(solution, *pair)).name: one for pair in pairs})
        self.level, self.fun = level, solution.around.value
        row = solution.cube.row(solution.point, solution.cell)
        self.better = solution.cube.space.point(row) if is_better else None
        self.nfev, self.n_failed = run.nfev, run.n_failed
        self.status = int(ends.status[0])
        self._solution, self._degrees_of_freedom = solution, degrees_of_freedom
        self._beyond, self._lower = _beyond(run, self), run.lower
        is_done = self.status == Status.CONVERGED
        self.message = "" if is_done else f"{run.limits.message(Status(self.status))} {ends.why}".strip()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the unknowns."""
        return tuple(self)

    def reach(self, level: float | None = None) -> float:
        """The root (F10) where intervals of a level end; by default that of the profiles."""
        return reach_of(self.level if level is None else probability("level", level), self._degrees_of_freedom)

    def interval(self, level: float | None = None) -> tuple[Floats, Floats]:
        """Ends of the intervals, in the order of ``names``.

        An end is the bound where the profile stays below the threshold up to there, and NaN where it was not followed
        so far.

        Parameters
        ----------
        level : float, optional
            At most that of the profiles, which is the default.
        """
        if level is not None and level > self.level:
            raise ValueError(
                f"these profiles reach to a level of {self.level:g}; for {level:g}: fit.profile(level={level:g})"
            )
        low, high = np.array([one.interval(self.reach(level)) for one in self.values()]).reshape(-1, 2).T
        return low, high

    @property
    def verdicts(self) -> dict[str, str]:
        """For each unknown whether the data determine it at this level.

        Identifiable: the interval has two ends. Practically not: the profile stays below the threshold up to a bound.
        Structurally not: the profile is flat, because other unknowns make up for any change.
        """
        return {name: one.verdict(self.reach()) for name, one in self.items()}

    @property
    def standard_errors(self) -> dict[str, float]:
        """Standard errors at the best point, by name."""
        one = self._solution.uncertainty
        every = dict(zip(one.names, one.standard_errors.tolist(), strict=True))
        return {name: every[name] for name in self}

    def plot(self) -> NDArray[Any]:
        """Draw a panel for each unknown: how far the loss rises along its profile, in units of one standard error.

        Dots were computed. A dashed line is the threshold, the shaded part the interval, and the dotted parabola what
        the standard error says. Needs matplotlib.

        Returns
        -------
        array of matplotlib Axes
        """
        return plot_profiles(self)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What to doubt."""
        said = []
        if self.better is not None:
            cube = self._solution.cube
            place = cube.space.text(cube.row(self._solution.point, self._solution.cell))
            said = [
                f"A better fit was found on the way, {self.fun:.6g} at {place}, and these are its profiles. Fit again "
                "with x0=profile.better."
            ]
        if self._lower is not None:
            said.append(f"A lower value, {self._lower:.6g}, was seen on the way: fit again, with more simulations.")
        for name, verdict in self.verdicts.items():
            said += self._of_curve(self[name], verdict)
        return tuple(dict.fromkeys((*said, *self._beyond)))

    def _of_curve(self, curve: ProfileCurve, verdict: str) -> list[str]:
        name = curve.name
        if verdict == STRUCTURALLY_NOT:
            along = self._together(curve)
            why = f"{along} can make up for any change of it" if along else "the outputs do not depend on it"
            return [f"The data do not determine {name}: {why}."]
        if verdict == PRACTICALLY_NOT:
            said = []
            for word, k in (("lower", 0), ("upper", -1)):
                value, root = curve.values[k], abs(curve.roots[k])
                if value == curve.estimate:
                    said.append(f"The best value of {name} is its {word} bound, {value:.6g}.")
                elif curve.ends[k] == AT_BOUND and root < self.reach():
                    said.append(
                        f"The data do not exclude values of {name} up to its {word} bound, {value:.6g}: the root of "
                        f"the rise is {root:.2g} there, and {self.reach():.3g} at the end of an interval."
                    )
            return said
        walls = [
            f"The {word} end of the interval of {name} is where it is because {' and '.join(others)} cannot go beyond "
            "a bound: the data alone may not determine it."
            for word, others in zip(("lower", "upper"), curve._walls, strict=True)
            if others
        ]
        return walls + [
            f"Points beyond {name} = {curve.values[k]:.6g} fail or are not allowed, so this end is unknown."
            if end == FAILED
            else f"The profile of {name} could not be followed beyond {curve.values[k]:.6g}: the valley is too narrow."
            for k, end in zip((0, -1), curve.ends, strict=True)
            if end not in (CROSSED, AT_BOUND, GOING)
        ]

    def _together(self, curve: ProfileCurve) -> str:
        """Names of the unknowns that change along a profile."""
        points = np.array([knot.point for side in curve._sides for knot in side if knot.root <= _FLAT])
        moved = zip(curve.unknowns, np.ptp(points, axis=0) > _TOGETHER, strict=True)
        return " and ".join(name for name, one in moved if one and name != curve.name)

    def _rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for (name, curve), low, high in zip(self.items(), *self.interval(), strict=True):
            error = self.standard_errors[name]
            size = error if 0 < error < math.inf else max(abs(high - low), 1e-300) / 4
            texts = [rounded(one, size) if math.isfinite(one) else "unknown" for one in (curve.estimate, low, high)]
            rows.append((name, texts[0], f"{texts[1]} to {texts[2]}", self.verdicts[name]))
        return rows

    def _header(self) -> tuple[str, ...]:
        return ("", "estimate", f"{100 * self.level:g} % profile interval", "the data make it")

    def _cost(self) -> str:
        failed = f", {self.n_failed} of them failed" if self.n_failed else ""
        return f"It took {counted(self.nfev, 'simulation')}{failed}."

    def __repr__(self) -> str:
        said = [line for text in self.remarks for line in paragraph(f"Remark: {text}")]
        return "\n".join([*paragraph(self.message), *aligned([self._header(), *self._rows()]), self._cost(), *said])

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        said = (f"Remark: {text}" for text in self.remarks)
        return block(self.message, table(self._rows(), self._header()), *map(remark, (self._cost(), *said)))


def _beyond(run: ProfileRun, profile: FitProfile) -> list[str]:
    """A remark if points that fit well enough lie outside of intervals."""
    solution, reach, pool = run.solution, profile.reach(), run.pool
    near = np.isfinite(pool.values)
    roots = np.sqrt(np.maximum(pool.values[near] - solution.around.value, 0.0) / solution.unit)
    fits = pool.points[near][roots < reach * (1 - _MARGIN)]
    apart = pool.apart(fits, solution.point)
    found = {}
    for (name, curve), walk in zip(profile.items(), run.walks[::2], strict=True):
        below, above = (crossing(side, reach) * (1 + _MARGIN) for side in curve._sides)
        ways = apart[:, walk.axis]
        outside = ways[(ways > above) | (-ways > below)]
        if len(outside):
            found[name] = curve._axis.numbers(outside)[0]
    if not found:
        return []
    places = ", ".join(f"{name} = {value:.6g}" for name, value in found.items())
    return [
        f"Points outside these intervals fit as well, such as {places}: the intervals are those around the best fit."
    ]


@delays_interrupts
def profile_fit(
    fit: Fit, names: Any, level: float, maxfev: float | None, time_limit: float | None, workers: Any, progress: bool
) -> FitProfile:
    """The profiles of a fit; see `Fit.profile`. Points that it simulates are added to those that the fit knows."""
    call, solution = fit._call, fit.solution
    level, unit = probability("level", level), solution.unit
    least = 0.0 if solution.is_noise_known else _ROUNDING * float(solution.outputs @ solution.outputs)
    if math.isnan(unit) or solution.around.value < least:
        why = "the data are too few to estimate the noise" if math.isnan(unit) else "all residuals are zero"
        raise ValueError(f"there are no profiles, because {why}: give sigma=")
    known = solution.uncertainty.names
    wanted = [names] if isinstance(names, str | int) else known if names is None else names
    axes = list(dict.fromkeys(_axis(one, known) for one in wanted))
    if not axes:
        raise ValueError(f"names must have one unknown at least, such as {known[0]!r}; without names it is all of them")
    most = _BUDGET * (solution.cube.n + 1) * len(axes)
    limits = Limits.read(None, maxfev, None, 0.0, time_limit, default=(None, most))
    options = call.options if workers is None else CallOptions(False, Workers.of(workers))
    freedom = solution.uncertainty.degrees_of_freedom
    run = ProfileRun(fit, axes, reach_of(level, freedom), limits.restarted())
    with (
        Evaluator(call.objective, options, space=call.space, n_details=len(solution.outputs)) as evaluate,
        ProgressBar(progress, limits.maxfev) as bar,
    ):
        evaluate.count = bar.count if progress else None
        drive([run], Queue(evaluate))
    evaluate.warn("a failure")
    fit["_known"] = [*fit["_known"], *run.simulated]
    return FitProfile(run, level, freedom, is_better=run.solution is not solution)


def _axis(name: Any, known: tuple[str, ...]) -> int:
    """The number of an unknown, by name or by number."""
    if isinstance(name, int | np.integer) and 0 <= name < len(known):
        return int(name)
    if name not in known:
        raise ValueError(f"there is no continuous unknown {name!r}; {choices(str(name), known)}")
    return known.index(name)
