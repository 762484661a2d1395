"""
How sure is the fit?
====================

Six measurements of the biochemical oxygen demand of stream water, in mg/l, after 1 to 10 days. The model is
:math:`y = b_1 (1 - e^{-b_2 t})`: the demand rises to :math:`b_1` with the rate :math:`b_2`. Data and certified values
are those of the set BoxBOD of the NIST Statistical Reference Datasets (public domain).

So few data leave the unknowns uncertain, and strongly correlated. `paoswarm.uncertainty` says by how much.
"""

import matplotlib.pyplot as plt
import numpy as np

import paoswarm as ps

days = np.array([1.0, 2.0, 3.0, 5.0, 7.0, 10.0])
demand = np.array([109.0, 149.0, 149.0, 191.0, 213.0, 224.0])
certified = {"b1": (2.1380940889e02, 1.2354515176e01), "b2": (5.4723748542e-01, 1.0455993237e-01)}


def model(b: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Oxygen demand after ``t`` days."""
    return b[0] * (1 - np.exp(-b[1] * t))


def residuals(b: np.ndarray) -> np.ndarray:
    """What the model does not explain."""
    return demand - model(b, days)


def sum_of_squares(b: np.ndarray) -> float:
    """What is minimised."""
    return float((residuals(b) ** 2).sum())


result = ps.minimize(sum_of_squares, [(1, 1000), (0.01, 10)], maxfev=3000, polish=True, rng=1)

# %%
# The standard errors are those that NIST certifies. The profile intervals are asymmetric: a large rate fits the data
# better than a small one.
fit = ps.uncertainty(result, residuals=residuals, names=["b1", "b2"], profile=0.95)
print(fit)
for name, (value, error) in certified.items():
    print(f"certified {name}: {value:.6g} +- {error:.4g}")

# %%
# The left figure shows the fitted curve with its 95 % band, and the wider band in which a new measurement is expected.
# Beyond the data the band widens. The right figure shows why: a higher end value with a lower rate fits almost as well.
# The dashed ellipse is where the parabola of the standard errors has risen as far as the outermost contour.
quantile = (fit.interval(0.95)[1][0] - fit.x[0]) / fit.standard_errors[0]
t = np.linspace(0, 20, 200)
curve, error = fit.predict(lambda b: model(b, t))
new = np.sqrt(error**2 + fit.variance)

fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.fill_between(t, curve - quantile * new, curve + quantile * new, alpha=0.15, label="new measurement")
left.fill_between(t, curve - quantile * error, curve + quantile * error, alpha=0.35, label="curve")
left.plot(t, curve)
left.plot(days, demand, "ko", label="measured")
left.set_xlabel("days")
left.set_ylabel("oxygen demand, mg/l")
left.legend(loc="lower right")

b1, b2 = np.meshgrid(np.linspace(170, 290, 121), np.linspace(0.2, 1.2, 101))
squares = ((demand - b1[..., None] * (1 - np.exp(-b2[..., None] * days))) ** 2).sum(axis=-1)
levels = np.array([0.5, 1, quantile**2]) * fit.variance
right.contour(b1, b2, squares - fit.fun, levels=levels)
angle = np.linspace(0, 2 * np.pi, 200)
ellipse = fit.x[:, None] + quantile * np.linalg.cholesky(fit.covariance) @ [np.cos(angle), np.sin(angle)]
right.plot(*ellipse, "--", color="grey", label="parabola")
right.plot(*fit.x, "k+")
for i, (low, high) in enumerate(fit.profile):
    line = right.axvspan if i == 0 else right.axhspan
    line(low, high, alpha=0.08, color="black")
right.set_xlabel("b1, end value")
right.set_ylabel("b2, rate")
right.legend()
plt.show()

assert np.allclose(fit.standard_errors, [error for _, error in certified.values()], rtol=0.01)
assert np.allclose(fit.x, [value for value, _ in certified.values()], rtol=1e-4)
