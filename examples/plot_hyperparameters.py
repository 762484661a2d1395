"""
What the hyperparameters do
===========================

The plots show one element of one particle, released at distance one from its attractor: the exact mean and the
two-sigma band of its motion. The dots mark the times at which the objective is evaluated.
"""

import matplotlib.pyplot as plt

import paoswarm as ps

# %%
# Three damping ratios with the same stationary spread: the noise is chosen so that the cloud ends at the same size.
fig, axes = plt.subplots(1, 3, figsize=(13, 3.8), sharey=True, layout="constrained")
for ax, damping in zip(axes, (0.1, 0.5, 2.0), strict=True):
    method = ps.PAO.from_behaviour(damping=damping, spread=0.665)
    ps.plot.element(method, ax=ax)
    ax.set_title(f"damping {damping}: {method.regime}, half-life {method.half_life:.1f} steps")
plt.show()

# %%
# The time step decides only when the objective is evaluated. The motion is the same.
fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True, layout="constrained")
for ax, dt in zip(axes, (0.3, 2.0), strict=True):
    ps.plot.element(ps.PAO(dt=dt), steps=round(12 / dt), ax=ax)
    ax.set_title(f"dt = {dt}")
plt.show()

# %%
# A method prints a summary of itself:
print(ps.PAO(damping=0.3))
