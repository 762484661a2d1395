"""
Design a spring from a catalogue
================================

A coil spring must carry 1000 lb and fit into its housing, with as little steel as possible. Wire is sold in 42
diameters, the number of coils is whole, and only the diameter of the coil is free. This is a classic of mixed design
(Sandgren, *Nonlinear integer and discrete programming in mechanical design optimization*, 1990). Its best known
solution has a volume of 2.65856 cubic inches.
"""

import matplotlib.pyplot as plt
import numpy as np

import paoswarm as ps

wires = [0.009, 0.0095, 0.0104, 0.0118, 0.0128, 0.0132, 0.014, 0.015, 0.0162, 0.0173, 0.018, 0.02, 0.023, 0.025]
wires += [0.028, 0.032, 0.035, 0.041, 0.047, 0.054, 0.063, 0.072, 0.08, 0.092, 0.105, 0.12, 0.135, 0.148, 0.162]
wires += [0.177, 0.192, 0.207, 0.225, 0.244, 0.263, 0.283, 0.307, 0.331, 0.362, 0.394, 0.4375, 0.5]
wires = np.array(wires)  # inches
load, preload = 1000.0, 300.0  # lb
allowed_stress, shear_modulus = 189e3, 11.5e6  # psi


def volume(p: dict) -> np.ndarray:
    """Volume of the steel, in cubic inches."""
    return np.pi**2 / 4 * p["coil"] * wires[p["wire"]] ** 2 * (p["turns"] + 2)


def rules(p: dict) -> np.ndarray:
    """What must not be positive."""
    wire, coil, turns = wires[p["wire"]], p["coil"], p["turns"]
    index = coil / wire
    curvature = (4 * index - 1) / (4 * index - 4) + 0.615 / index  # Wahl's factor
    stress = 8 * curvature * load * coil / (np.pi * wire**3)
    stiffness = shear_modulus * wire**4 / (8 * turns * coil**3)
    solid = 1.05 * (turns + 2) * wire
    return np.array(
        [
            stress / allowed_stress - 1,
            (load / stiffness + solid) / 14 - 1,  # free length at most 14 inches
            0.2 - wire,  # thinner wire is not available for this load
            3 - index,
            preload / stiffness / 6 - 1,  # deflection under the preload at most 6 inches
            1.25 - (load - preload) / stiffness,  # deflection from the preload to the load at least 1.25 inches
        ]
    )


# %%
# The variables have names. ``wire`` is the place in the catalogue: neighbours have similar diameters, so it is an
# `Integer` and not a `Choice`.
space = {
    "wire": ps.Integer(0, len(wires) - 1),
    "turns": ps.Integer(1, 70),
    "coil": ps.Real(0.6, 3.0),
}
result = ps.minimize(volume, space, constraints=rules, maxfev=5000, rng=2)
best = result.best
print(result.message)
print(f"wire {wires[best['wire']]} in, {best['turns']} turns, coil {best['coil']:.6f} in: volume {result.fun:.5f}")
print(f"feasible: {result.feasible}; {result.n_infeasible} of {result.nfev} points broke a rule")
names = ("stress", "free length", "thin wire", "index", "preload", "travel")
print("rules at the solution:", ", ".join(f"{n} {g:.1e}" for n, g in zip(names, result.constr[0], strict=True)))

# %%
# Wire and turns are found. The coil should be as small as the travel allows. A second, short run finds out how small
# that is: the whole numbers are fixed, and one continuous unknown is left.
refined = ps.minimize(volume, {**space, "wire": best["wire"], "turns": best["turns"]}, constraints=rules, rng=1)
print(refined.message)
print(f"coil {refined.best['coil']:.6f} in: {refined.fun:.5f} cubic inches, published 2.65856")

# %%
# Is it the best? The problem is small enough to try everything: all wires, all turns, and 5000 coils for each. Every
# square is the lightest spring with its wire and turns; white squares are impossible.
wire, turns, coil = np.meshgrid(np.arange(27, 42), np.arange(1, 31), np.linspace(0.6, 3.0, 5000), indexing="ij")
everything = {"wire": wire, "turns": turns, "coil": coil}
with np.errstate(divide="ignore"):
    allowed = (rules(everything) <= 0).all(axis=0)
lightest = np.where(allowed, volume(everything), np.inf).min(axis=-1)
print(f"lightest of {allowed.size:,} springs: {lightest.min():.5f} cubic inches")

fig, ax = plt.subplots(figsize=(8, 5), layout="constrained")
possible = np.ma.masked_invalid(lightest).T
shown = ax.pcolormesh(np.arange(27, 42), np.arange(1, 31), possible, norm="log", cmap="viridis_r")
fig.colorbar(shown, label="volume, cubic inches")
ax.plot(best["wire"], best["turns"], "o", color="C3", markersize=12, fillstyle="none", markeredgewidth=2, label="found")
ax.set_xticks(np.arange(27, 42, 2), [f"{wires[i]:g}" for i in range(27, 42, 2)])
ax.set(xlabel="wire diameter, inches", ylabel="turns")
ax.legend()
plt.show()

assert refined.feasible
assert abs(refined.fun - 2.65856) < 1e-4
assert refined.fun < lightest.min() < refined.fun * 1.001
