r"""A quadratic model of the objective around a point, made of few values, and the lowest point of it in a region.

Points are :math:`u = T^{-1} (x - c) / \Delta` in a region with the centre :math:`c`, the best point known, the radius
:math:`\Delta` and the shape :math:`T`. Between two models the Hessian changes as little as the values allow: with
the residuals :math:`r` of the old Hessian at the :math:`n` nearest points,

.. math:: \min_{c, g, \delta H} \tfrac1{2 \tau^2} |\delta H|_F^2 + \tfrac12 \sum_i e_i^2 / w_i, \qquad
          c + g^T u_i + \tfrac12 u_i^T\, \delta H\, u_i = r_i - e_i                                     \tag{A16}

so one formula gives linear models, diagonal ones, and weighted regressions, as values come in (Powell 2004 has the
limit :math:`w \to 0`). Its solution is :math:`\delta H = \tau^2 \sum_i \lambda_i u_i u_i^T` with

.. math:: \begin{pmatrix} \tau^2 K + W & P \\ P^T & 0 \end{pmatrix}
          \begin{pmatrix} \lambda \\ (c, g) \end{pmatrix} = \begin{pmatrix} r \\ 0 \end{pmatrix}, \qquad
          K_{ij} = \tfrac12 (u_i^T u_j)^2, \quad P_i = (1, u_i)                                         \tag{A17}

The region takes the shape of the Hessian, :math:`T = |H|^{-1/2}` with a geometric mean of its half-axes of 1: in a
narrow valley a round region would be as narrow as the valley, and steps along it as short.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from paoswarm.core.arrays import Floats
from paoswarm.methods.quadratic_model import shortened_newton

_FREEDOM = 100.0  # tau: how much the Hessian may change, compared with the errors of the values
_RIDGE = 1e-9  # w: of K, more for distant points
_MISSED = 0.03  # w: share of its height above the best one by which a value may be missed; far ones matter less
_WORST_CONDITION = 1e4  # of the shape's curvatures
_LONGEST = 0.5  # half-axis of the region, in widths of the bounds
_SHORTER = (1.0, 0.5, 0.25, 0.1, 0.03)  # lengths of steps downhill that are tried
_FLAT = 1e-9  # share of the largest curvature that is rounding: with few values most directions have none
_SPANNED = 0.3  # radii: points that reach less far in a direction say nothing about it
_NEAR = 2.5  # radii


class TrustRegion(NamedTuple):
    """Where a model is believed: an ellipsoid around the best point. Points are in widths of the bounds."""

    centre: Floats  # (d,)
    value: float  # there
    radius: float
    shape: Floats  # T, (d, d), symmetric
    inverse: Floats  # of T

    def inner(self, x: Floats) -> Floats:
        """Coordinates u of points ``(m, d)``."""
        u: Floats = (x - self.centre) @ self.inverse / self.radius
        return u

    def outer(self, u: Floats) -> Floats:
        """The points x ``(m, d)`` with these coordinates."""
        x: Floats = self.centre + self.radius * u @ self.shape
        return x

    @property
    def reach(self) -> float:
        """Its longest half-axis."""
        return self.radius * float(np.linalg.eigvalsh(self.shape)[-1])


class LocalModel(NamedTuple):
    """Slope and Hessian in the region's coordinates u, in units of the objective."""

    slope: Floats  # (d,)
    hessian: Floats  # (d, d)

    def change(self, u: Floats) -> Floats:
        """How the objective changes from the centre to points ``(m, d)``."""
        found: Floats = u @ self.slope + 0.5 * np.einsum("ij,jk,ik->i", u, self.hessian, u)
        return found


def fitted(region: TrustRegion, hessian: Floats, x: Floats, f: Floats) -> LocalModel | None:
    """The model of points ``x`` (n, d) whose Hessian, in widths of the bounds, is nearest to a known one."""
    u, heights = region.inner(x), f - region.value
    n, d = u.shape
    unit = float(np.median(np.abs(heights)))
    if not (unit > 0 and math.isfinite(unit)):
        return None
    to_u = region.radius * region.shape
    before = to_u @ hessian @ to_u / unit
    heights = heights / unit
    rest = heights - 0.5 * np.einsum("ij,jk,ik->i", u, before, u)
    products = u @ u.T
    products = 0.5 * products * products
    size = max(1.0, float(np.trace(products)) / n)
    weights = _RIDGE * size * (1 + np.square(np.diag(products))) + np.square(_MISSED * heights)
    system = np.zeros((n + d + 1, n + d + 1))
    system[:n, :n] = _FREEDOM**2 * products + np.diag(weights)
    system[:n, n] = system[n, :n] = 1.0
    system[:n, n + 1 :] = u
    system[n + 1 :, :n] = u.T
    try:
        solution = np.linalg.solve(system, np.concatenate((rest, np.zeros(d + 1))))
    except np.linalg.LinAlgError:
        return None
    change = _FREEDOM**2 * (u.T * solution[:n]) @ u
    model = LocalModel(unit * solution[n + 1 :], unit * (before + (change + change.T) / 2))
    return model if np.isfinite(model.slope).all() and np.isfinite(model.hessian).all() else None


def in_widths(region: TrustRegion, model: LocalModel) -> Floats:
    """The model's Hessian in widths of the bounds."""
    from_u = region.inverse / region.radius
    found: Floats = from_u @ model.hessian @ from_u
    return found


def shaped(region: TrustRegion, hessian: Floats) -> TrustRegion:
    """The region with the shape of a Hessian (in widths of the bounds)."""
    curvature, axes = np.linalg.eigh(hessian)
    curvature = np.abs(curvature)
    if not (curvature.max() > 0 and math.isfinite(curvature.max())):
        return region
    # In units of the largest: logarithms would round otherwise in another unit of the objective.
    lengths = 1 / np.sqrt(np.maximum(curvature / curvature.max(), 1 / _WORST_CONDITION))
    lengths = lengths / np.exp(np.log(lengths).mean())
    lengths = lengths * min(1.0, _LONGEST / (region.radius * lengths.max()))
    return region._replace(shape=(axes * lengths) @ axes.T, inverse=(axes / lengths) @ axes.T)


def lowest(region: TrustRegion, model: LocalModel, low: Floats, high: Floats, radius: float = 1.0) -> Floats:
    """The coordinates u where the model is lowest, as far as tried, within ``radius`` and bounds of x.

    Tried are the step that puts unknowns on their bounds one after another, the step without bounds, shortened or
    clipped, and steps downhill.
    """
    room = low - region.centre, high - region.centre

    def inside(u: Floats, is_shortened: bool = False) -> Floats:
        step = region.radius * region.shape @ u
        if is_shortened:
            with np.errstate(divide="ignore", invalid="ignore"):
                shares = np.where(step > 0, room[1] / step, np.where(step < 0, room[0] / step, np.inf))
            return u * max(0.0, min(1.0, float(shares.min())))
        clipped = region.inverse @ np.clip(step, *room) / region.radius
        return clipped / max(1.0, math.sqrt(clipped @ clipped) / radius)

    free = _in_ball(model.slope, model.hessian, radius)
    nearest = inside(free)
    if np.allclose(nearest, free, rtol=1e-9, atol=1e-12):
        return free
    tried = [_along_walls(region, model, room, radius), inside(free, is_shortened=True), nearest]
    to_x = region.shape @ region.shape  # downhill in u is along T^-1, in x along T
    for downhill in np.array([-model.slope, -np.linalg.solve(to_x, model.slope)]):
        length = math.sqrt(downhill @ downhill)
        if length > 0:
            tried += [inside(downhill * (radius * share / length)) for share in _SHORTER]
    steps = np.array(tried)
    found: Floats = steps[int(np.argmin(model.change(steps)))]
    return found


def _in_ball(slope: Floats, hessian: Floats, radius: float) -> Floats:
    """The lowest point in a ball.

    Where a direction curves downwards it is on the edge: that of the bowl whose curvatures are larger by the lowest
    one; and, if that is inside, from there along the lowest axis.
    """
    curvature, axes = np.linalg.eigh(hessian)
    has_saddle = -curvature[0] > _FLAT * np.abs(curvature).max()
    step = shortened_newton(axes.T @ slope, curvature - curvature[0] if has_saddle else np.abs(curvature), radius)
    if has_saddle:
        rest = max(0.0, radius**2 - float(step @ step) + step[0] ** 2)
        step[0] = math.copysign(math.sqrt(rest), step[0])
    return axes @ step


def _along_walls(region: TrustRegion, model: LocalModel, room: tuple[Floats, Floats], radius: float) -> Floats:
    """The step of unknowns that stop at their bounds, one set after another; in x while that is so."""
    from_x = region.inverse / region.radius
    slope, hessian, metric = from_x @ model.slope, from_x @ model.hessian @ from_x, from_x @ from_x
    step = np.zeros(len(slope))
    free = ~((room[0] >= 0) & (slope > 0)) & ~((room[1] <= 0) & (slope < 0))
    while free.any():
        fixed = ~free
        used = float(step[fixed] @ metric[np.ix_(fixed, fixed)] @ step[fixed])
        if used >= radius**2:
            step[fixed] *= radius / math.sqrt(used)
            break
        root = np.linalg.inv(np.linalg.cholesky(metric[np.ix_(free, free)]))
        local = root @ (slope[free] + hessian[np.ix_(free, fixed)] @ step[fixed])
        bent = root @ hessian[np.ix_(free, free)] @ root.T
        wanted = root.T @ _in_ball(local, bent, math.sqrt(max(0.05 * radius**2, radius**2 - used)))
        step[free] = np.clip(wanted, room[0][free], room[1][free])
        out = np.flatnonzero(free)[step[free] != wanted]
        if not len(out):
            break
        step[np.setdiff1d(np.flatnonzero(free), out)] = 0.0
        free[out] = False
    u = from_x @ step
    return u / max(1.0, math.sqrt(u @ u) / radius)


def unspanned(region: TrustRegion, x: Floats) -> Floats | None:
    """A direction (unit vector in u) that the points near the centre do not span; None if they span all."""
    u = region.inner(x)
    distance = np.square(u).sum(axis=1)
    d = u.shape[1]
    near = np.argsort(distance, kind="stable")[: 3 * d + 1]
    u = u[near[(distance[near] > 0) & (distance[near] <= _NEAR**2)]]
    if not len(u):
        return np.eye(d)[0]
    _, sizes, directions = np.linalg.svd(u, full_matrices=True)
    if len(sizes) == d and sizes[-1] >= _SPANNED:
        return None
    found: Floats = directions[-1]
    return found
