r"""Priors of several parameters at once, and beside each other.

Each maps independent normal deviates, (S11), by the distribution of every parameter given those before it (Rosenblatt
1952). In whitened coordinates these are

- of Student's law with :math:`\nu` degrees of freedom again Student's, with :math:`\nu + i` of them after :math:`i`
  coordinates, and the scale :math:`\sqrt{(\nu + |y|^2) / (\nu + i)}`;
- of a Dirichlet law beta laws of the share of what is left;
- of a sum of normal kernels such a sum, with weights by the densities of the kernels at the coordinates before.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import betainc, betaincinv, log_ndtr, ndtr, ndtri, stdtr, stdtrit

from paoswarm.core.arrays import Array, Floats, namespace
from paoswarm.sampling.laws import NoFormula
from paoswarm.sampling.prior import Correlated, Prior
from paoswarm.space.names import numbered

_PART = 2**20  # kernels times rows that are looked at together
_STILL = 1e-14  # relative step that ends the search for a quantile; it converges quadratically
_MOST_STEPS = 100
_TINY = np.finfo(float).tiny


class Blocks(Prior):
    """Independent groups of parameters, each with its prior."""

    def __init__(self, parts: Sequence[Prior]) -> None:
        super().__init__(
            [name for one in parts for name in one.names], [bool(each) for one in parts for each in one._round]
        )
        self._parts = parts
        self.is_ours = all(one.is_ours for one in parts)
        self._reach = np.concatenate([one._reach for one in parts])
        self._period = np.concatenate([one._period for one in parts])
        ends = np.cumsum([0, *(one.dim for one in parts)]).tolist()
        self._columns = [slice(first, end) for first, end in zip(ends[:-1], ends[1:], strict=True)]

    def parameters(self, z: Array) -> Array:
        """Those of all groups."""
        each = [one.parameters(z[:, own]) for one, own in zip(self._parts, self._columns, strict=True)]
        return namespace(z).concat(each, axis=1)

    def coordinates(self, x: Floats) -> Floats:
        """Those of all groups."""
        each = [one.coordinates(x[:, own]) for one, own in zip(self._parts, self._columns, strict=True)]
        return np.concatenate(each, axis=1)

    def parameter_log_density(self, x: Floats) -> Floats | None:
        """The sum over groups; None if that of any is not known."""
        each = [one.parameter_log_density(x[:, own]) for one, own in zip(self._parts, self._columns, strict=True)]
        known = [one for one in each if one is not None]
        return np.sum(known, axis=0) if len(known) == len(each) else None


class Joint(Prior):
    """A multivariate distribution of `scipy.stats`; it cannot be traced."""

    def __init__(self, names: Sequence[str], law: Any) -> None:
        super().__init__(names)
        self._law = law

    def parameters(self, z: Array) -> Array:
        """Invert (S11), one parameter after the other."""
        if namespace(z) is not np:
            raise NoFormula(f"the quantiles of {type(self._law).__name__} have no formula")
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            return self._mapped(z)

    @abstractmethod
    def _mapped(self, z: Floats) -> Floats:
        """The parameters."""

    def parameter_log_density(self, x: Floats) -> Floats:
        """That of SciPy."""
        return np.reshape(self._law.logpdf(x), len(x))


class StudentPrior(Joint):
    """A frozen ``scipy.stats.multivariate_t``."""

    def __init__(self, names: Sequence[str], law: Any) -> None:
        super().__init__(names, law)
        self._factor = _factor(law.shape)

    def _mapped(self, z: Floats) -> Floats:
        y, far = np.empty_like(z), np.zeros(len(z))
        for i in range(self.dim):
            nu = self._law.df + i
            y[:, i] = -np.sign(z[:, i]) * stdtrit(nu, ndtr(-np.abs(z[:, i]))) * np.sqrt((self._law.df + far) / nu)
            far += y[:, i] ** 2
        return np.asarray(self._law.loc + y @ self._factor.T)

    def coordinates(self, x: Floats) -> Floats:
        """Evaluate (S11), one parameter after the other."""
        y, far = np.linalg.solve(self._factor, (x - self._law.loc).T).T, np.zeros(len(x))
        z = np.empty_like(y)
        for i in range(self.dim):
            nu = self._law.df + i
            t = y[:, i] / np.sqrt((self._law.df + far) / nu)
            z[:, i] = -np.sign(t) * ndtri(stdtr(nu, -np.abs(t)))
            far += y[:, i] ** 2
        return z


class DirichletPrior(Joint):
    """A frozen ``scipy.stats.dirichlet``: all shares but the last, which is what they leave of one."""

    def _mapped(self, z: Floats) -> Floats:
        x, left = np.empty_like(z), np.ones(len(z))
        for i, (a, b) in enumerate(self._shapes):
            is_low, tail = z[:, i] < 0, ndtr(-np.abs(z[:, i]))
            small = np.clip(betaincinv(np.where(is_low, a, b), np.where(is_low, b, a), tail), _TINY, 1 - 2.0**-53)
            x[:, i] = np.where(is_low, small, 1 - small) * left
            left *= np.where(is_low, 1 - small, small)
        return x

    def coordinates(self, x: Floats) -> Floats:
        """Evaluate (S11), one share after the other; NaN for what are no shares."""
        z, left = np.empty_like(x), np.ones(len(x))
        for i, (a, b) in enumerate(self._shapes):
            share = x[:, i] / left
            z[:, i] = _deviate(betainc(a, b, share), betainc(b, a, 1 - share))
            left = left - x[:, i]
        return z

    @property
    def _shapes(self) -> list[tuple[float, float]]:
        alpha = np.asarray(self._law.alpha, dtype=float)
        return [(float(alpha[i]), float(alpha[i + 1 :].sum())) for i in range(self.dim)]

    def parameter_log_density(self, x: Floats) -> Floats:
        """That of SciPy; minus infinity for what are no shares."""
        is_inside = (x > 0).all(axis=1) & (x.sum(axis=1) < 1)
        density = np.full(len(x), -np.inf)
        if is_inside.any():
            density[is_inside] = self._law.logpdf(x[is_inside].T)
        return density


class KernelPrior(Joint):
    """A ``scipy.stats.gaussian_kde``, such as that of draws from an earlier posterior."""

    def __init__(self, names: Sequence[str], law: Any) -> None:
        super().__init__(names, law)
        self._factor = _factor(law.covariance)
        self._centres = np.linalg.solve(self._factor, law.dataset).T  # (k, d)

    def _mapped(self, z: Floats) -> Floats:
        rows = max(1, _PART // len(self._centres))
        y = [self._whitened(z[i : i + rows]) for i in range(0, len(z), rows)]
        return np.concatenate([np.empty((0, self.dim)), *y]) @ self._factor.T

    def _whitened(self, z: Floats) -> Floats:
        y = np.empty_like(z)
        for i, weights in enumerate(self._weights(y)):
            y[:, i] = _quantile(z[:, i], self._centres[:, i], weights)
        return y

    def _weights(self, y: Floats) -> Any:
        """For each coordinate in turn the weights ``(m, k)`` of the kernels, given those before."""
        log_weights = np.tile(np.log(self._law.weights), (len(y), 1))
        for i in range(self.dim):
            weights = np.exp(log_weights - log_weights.max(axis=1, keepdims=True))
            yield weights / weights.sum(axis=1, keepdims=True)
            log_weights -= 0.5 * (y[:, i, None] - self._centres[:, i]) ** 2

    def coordinates(self, x: Floats) -> Floats:
        """Evaluate (S11), one parameter after the other."""
        y = np.asarray(np.linalg.solve(self._factor, x.T).T, dtype=np.float64)
        z = np.empty_like(y)
        for i, weights in enumerate(self._weights(y)):
            apart = y[:, i, None] - self._centres[:, i]
            z[:, i] = _deviate((weights * ndtr(apart)).sum(axis=1), (weights * ndtr(-apart)).sum(axis=1))
        return z

    def parameter_log_density(self, x: Floats) -> Floats:
        """That of SciPy."""
        return np.asarray(self._law.logpdf(x.T))


def _quantile(z: Floats, centres: Floats, weights: Floats) -> Floats:
    """Where a sum of normal laws ``(k,)`` with weights ``(m, k)`` has the probability of ``z`` below, ``(m,)``.

    The logarithm of the smaller tail is concave. So Newton's steps from where it is too small never go too far.
    """
    sign = np.where(z > 0, -1.0, 1.0)
    mirrored = sign[:, None] * centres
    t = mirrored.min(axis=1) - np.abs(z)
    aim = log_ndtr(-np.abs(z))
    for _ in range(_MOST_STEPS):
        apart = t[:, None] - mirrored
        below = (weights * ndtr(apart)).sum(axis=1)
        density = (weights * np.exp(-0.5 * apart**2)).sum(axis=1) / np.sqrt(2 * np.pi)
        step = np.where(below > 0, (aim - np.log(np.maximum(below, _TINY))) * below / np.maximum(density, _TINY), 1.0)
        t = t + step
        if (np.abs(step) <= _STILL * (1 + np.abs(t))).all():
            break
    return np.asarray(sign * t)


def _deviate(below: Floats, above: Floats) -> Floats:
    """The normal deviate with these probabilities on both sides, by the one that keeps its digits."""
    return np.where(below < above, ndtri(below), -ndtri(above))


def _factor(covariance: Any) -> Floats:
    try:
        return np.linalg.cholesky(np.atleast_2d(np.asarray(covariance, dtype=float)))
    except np.linalg.LinAlgError:
        raise ValueError("the covariance, or shape, of the prior is not positive definite") from None


def is_joint(law: Any) -> bool:
    """Whether it is a multivariate distribution of `scipy.stats` that `read_joint` reads."""
    is_normal = hasattr(law, "mean") and hasattr(law, "cov") and hasattr(law, "logpdf") and not callable(law.mean)
    return is_normal or type(law).__name__ in ("multivariate_t_frozen", "dirichlet_frozen", "gaussian_kde")


def read_joint(law: Any, names: Sequence[str] | None = None) -> Prior:
    """The prior of a multivariate distribution of `scipy.stats`, with names of its parameters."""
    kind = type(law).__name__
    if kind == "dirichlet_frozen":
        k = len(law.alpha)
        if names is not None and len(names) == k:
            raise ValueError(
                f"prior: a Dirichlet law of {k} shares has {k - 1} parameters, because the last share is what the "
                f"others leave of one: leave out {names[-1]!r}, and compute it in your function"
            )
        return DirichletPrior(_named(names, k - 1), law)
    if kind == "gaussian_kde":
        return KernelPrior(_named(names, law.d), law)
    if kind == "multivariate_t_frozen" and np.isfinite(law.df):
        return StudentPrior(_named(names, law.dim), law)
    centre, spread = (law.loc, law.shape) if kind == "multivariate_t_frozen" else (law.mean, law.cov)
    mean = np.atleast_1d(np.asarray(centre, dtype=float))
    return Correlated(_named(names, len(mean)), mean, np.atleast_2d(np.asarray(spread, dtype=float)))


def _named(names: Sequence[str] | None, dim: int) -> Sequence[str]:
    if names is not None and len(names) != dim:
        raise ValueError(f"prior: there are {len(names)} names, {list(names)}, for {dim} parameters")
    return numbered(dim) if names is None else names
