"""
Fit a model to real data
========================

The data are fourteen measurements of volume against pressure, from dental research on the adsorption of a
monomolecular layer. The model is :math:`y = b_1 (1 - e^{-b_2 x})`, and the answer is certified (data set Misra1a of the
NIST Statistical Reference Datasets, public domain). The two parameters are strongly correlated, so the sum of squares
is a narrow, curved valley in the box.
"""

import matplotlib.pyplot as plt
import numpy as np

import paoswarm as ps

pressure = np.array([77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0])
volume = np.array([10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78])
certified = np.array([2.3894212918e02, 5.5015643181e-04])
certified_residual = 1.2455138894e-01


def sum_of_squares(b: np.ndarray) -> np.ndarray:
    """Sum of squared residuals for parameter rows ``(m, 2)``."""
    model = b[:, :1] * (1 - np.exp(-b[:, 1:] * pressure))
    return ((model - volume) ** 2).sum(axis=1)


# %%
# The valley is not parallel to the axes. ``noise.covariance`` gives the noise the shape of the valley.
bounds = [(50, 600), (1e-5, 2e-3)]
method = ps.PAO(noise_scale=ps.noise.covariance)
result = ps.minimize(sum_of_squares, bounds, method=method, vectorized=True, maxiter=200, rng=1)
print("found     ", result.x, result.fun)
print("certified ", certified, certified_residual)

# %%
# A comparison with the default, element-wise noise: thirty runs each.
shapes = {"covariance": method, "spread": ps.PAO()}
runs = {
    name: ps.minimize_many(sum_of_squares, bounds, runs=30, method=m, vectorized=True, maxiter=200, rng=1)
    for name, m in shapes.items()
}
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
ps.plot.convergence(runs, ax=left, optimum=certified_residual * (1 - 1e-12))
x = np.linspace(0, 800, 200)
right.plot(pressure, volume, "o", label="measured")
right.plot(x, result.x[0] * (1 - np.exp(-result.x[1] * x)), label="fitted")
right.set_xlabel("pressure")
right.set_ylabel("volume")
right.legend()
plt.show()

assert np.allclose(result.x, certified, rtol=1e-7)
