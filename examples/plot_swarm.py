"""
Watch a swarm
=============

The plots show the particles, their best points, and the two-sigma ellipse of each particle's next position, in closed
form. A callback receives the whole swarm after every generation.
"""

import matplotlib.pyplot as plt
import numpy as np

import paoswarm as ps


def ackley(x: np.ndarray) -> np.ndarray:
    """Ackley's function around (1.5, -1)."""
    z = x - np.array([1.5, -1.0])
    bowl = -20 * np.exp(-0.2 * np.sqrt((z**2).mean(axis=-1)))
    return bowl - np.exp(np.cos(2 * np.pi * z).mean(axis=-1)) + 20 + np.e


seen = []


def look(intermediate_result: ps.results.Result) -> None:
    """Keep the swarm of every generation (its arrays are read-only)."""
    seen.append(intermediate_result.swarm)


method = ps.PAO()
result = ps.minimize(
    ackley, [(-5, 5)] * 2, method=method, n_particles=30, maxiter=20, vectorized=True, callback=look, rng=3
)

# %%
# The ellipses shrink as local and global bests agree. Most are narrow, because the noise is element-wise: in each
# element it is as large as the distance between the two bests.
fig, axes = plt.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
for ax, generation in zip(axes, (1, 6, 12), strict=True):
    ps.plot.swarm(seen[generation], ackley, method=method, vectorized=True, ax=ax)
    ax.set_title(f"generation {generation}")
plt.show()

# %%
# The same in numbers: the log density of a next step, for the first five particles.
law = method.step_law(seen[6])
position, velocity = law.sample(np.random.default_rng(1))
print(law.log_density(position, velocity)[:5])
