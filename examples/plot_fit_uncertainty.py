"""
How sure is the fit?
====================

Six measurements of the biochemical oxygen demand of stream water, in mg/l, after 1 to 10 days. The model is
:math:`y = b_1 (1 - e^{-b_2 t})`: the demand rises to :math:`b_1` with the rate :math:`b_2`. Data and certified values
are those of the set BoxBOD of the NIST Statistical Reference Datasets (public domain).

So few data leave the unknowns uncertain, and strongly correlated. `paoswarm.fit` says by how much.
"""

import matplotlib.pyplot as plt
import numpy as np

import paoswarm as ps

days = np.array([1.0, 2.0, 3.0, 5.0, 7.0, 10.0])
demand = np.array([109.0, 149.0, 149.0, 191.0, 213.0, 224.0])
certified = {"b1": (2.1380940889e02, 1.2354515176e01), "b2": (5.4723748542e-01, 1.0455993237e-01)}
later = np.linspace(10.5, 20, 39)  # where nothing was measured: NaN


def model(p: dict) -> np.ndarray:
    """Oxygen demand on the days of measurement, and later."""
    return p["b1"] * (1 - np.exp(-p["b2"] * np.append(days, later)))


data = np.append(demand, np.full(len(later), np.nan))
fit = ps.fit(model, {"b1": (1, 1000), "b2": (0.01, 10)}, data, rng=1)

# %%
# The standard errors are those that NIST certifies. The profile intervals are asymmetric: a large rate fits the data
# better than a small one.
print(fit)
profile = fit.profile()
print(profile)
for name, (value, error) in certified.items():
    print(f"certified {name}: {value:.6g} +- {error:.4g}")

# %%
# The left figure shows the fitted curve with its 95 % band, and the wider band in which a new measurement is expected.
# Beyond the data the band widens. The right figure shows why: a higher end value with a lower rate fits almost as well.
# The dashed ellipse is where the parabola of the standard errors has risen as far as the outermost contour.
t = np.append(days, later)
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.fill_between(t, *fit.band(noise=True), alpha=0.15, label="new measurement")
left.fill_between(t, *fit.band(), alpha=0.35, label="curve")
left.plot(t, fit.predictions)
left.plot(days, demand, "ko", label="measured")
left.set_xlabel("days")
left.set_ylabel("oxygen demand, mg/l")
left.legend(loc="lower right")

quantile = (fit.interval(0.95)[1][0] - fit.x[0]) / fit.standard_errors[0]
variance = fit.sigma[""] ** 2
b1, b2 = np.meshgrid(np.linspace(170, 290, 121), np.linspace(0.2, 1.2, 101))
squares = ((demand - b1[..., None] * (1 - np.exp(-b2[..., None] * days))) ** 2).sum(axis=-1)
levels = np.array([0.5, 1, quantile**2]) * variance
right.contour(b1, b2, squares - fit.fun, levels=levels)
angle = np.linspace(0, 2 * np.pi, 200)
ellipse = fit.x[:, None] + quantile * np.linalg.cholesky(fit.covariance) @ [np.cos(angle), np.sin(angle)]
right.plot(*ellipse, "--", color="grey", label="parabola")
right.plot(*fit.x, "k+")
for span, low, high in zip((right.axvspan, right.axhspan), *profile.interval(), strict=True):
    span(low, high, alpha=0.08, color="black")
right.set_xlabel("b1, end value")
right.set_ylabel("b2, rate")
right.legend()
plt.show()

assert np.allclose(fit.standard_errors, [error for _, error in certified.values()], rtol=0.01)
assert np.allclose(fit.x, [value for value, _ in certified.values()], rtol=1e-4)
