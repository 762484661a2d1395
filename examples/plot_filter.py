"""
Design a filter from parts that exist
=====================================

An active low-pass filter (Sallen and Key) has two resistors, two capacitors and an amplifier. Resistors are sold in the
24 values per decade of series E24, capacitors in the 12 of series E12: these are whole numbers, the position in the
series. The gain is set by a trimmer, which is continuous. One of several amplifiers is chosen, whose own bandwidth
bends the response. Wanted: the Butterworth response with a cut-off at 10 kHz, in decibels from 100 Hz to 100 kHz.
"""

import matplotlib.pyplot as plt
import numpy as np

import paoswarm as ps

E24 = np.array([10, 11, 12, 13, 15, 16, 18, 20, 22, 24, 27, 30, 33, 36, 39, 43, 47, 51, 56, 62, 68, 75, 82, 91]) / 10
E12 = E24[::2]
bandwidth = {"LM358": 0.7e6, "TL072": 3e6, "NE5532": 10e6, "OPA2134": 8e6}  # Hz
price = {"LM358": 0.1, "TL072": 0.2, "NE5532": 0.4, "OPA2134": 3.0}
frequency = np.geomspace(100, 1e5, 121)
wanted = -10 * np.log10(1 + (frequency / 1e4) ** 4)


def resistor(i: int) -> float:
    """Ohms: from 1 kOhm on."""
    return 1e3 * E24[i % 24] * 10 ** (i // 24)


def capacitor(i: int) -> float:
    """Farads: from 100 pF on."""
    return 1e-10 * E12[i % 12] * 10 ** (i // 12)


def response(p: dict) -> np.ndarray:
    """Decibels, relative to the gain."""
    r1, r2, c1, c2 = resistor(p["r1"]), resistor(p["r2"]), capacitor(p["c1"]), capacitor(p["c2"])
    s = 2j * np.pi * frequency
    gain = p["gain"] / (1 + p["gain"] * s / (2 * np.pi * bandwidth[p["amplifier"]]))
    transfer = gain / (1 + s * (c2 * (r1 + r2) + r1 * c1 * (1 - gain)) + s**2 * r1 * r2 * c1 * c2)
    return 20 * np.log10(np.abs(transfer) / p["gain"])


def cost(p: dict) -> float:
    """Root mean square error in decibels, and a little for the price."""
    return float(np.sqrt(np.mean((response(p) - wanted) ** 2)) + 0.01 * price[p["amplifier"]])


# %%
# Names, whole numbers, a choice and a continuous value, side by side:
space = {
    "r1": ps.Integer(0, 47),  # 1 kOhm to 91 kOhm
    "r2": ps.Integer(0, 47),
    "c1": ps.Integer(0, 35),  # 100 pF to 82 nF
    "c2": ps.Integer(0, 35),
    "gain": ps.Real(1, 3),
    "amplifier": ps.Choice(list(bandwidth)),
}
result = ps.minimize(cost, space, maxfev=6000, rng=1)
best = result.best
print(result.message)
print(f"R1 = {resistor(best['r1']):.0f} Ohm, R2 = {resistor(best['r2']):.0f} Ohm")
print(f"C1 = {capacitor(best['c1']):.2e} F, C2 = {capacitor(best['c2']):.2e} F")
print(f"gain {best['gain']:.3f}, {best['amplifier']}, cost {result.fun:.4f}")

# %%
# All evaluations are a table. Its best value for each amplifier shows what the bandwidth costs.
fig, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.semilogx(frequency, wanted, "k--", label="wanted")
left.semilogx(frequency, response(best), label="designed")
left.set_xlabel("frequency (Hz)")
left.set_ylabel("response (dB)")
left.legend()
costs = result.to_dataframe().groupby("amplifier")["value"].min()
right.bar(costs.index, costs)
right.set_yscale("log")
right.set_ylabel("best cost")
plt.show()

assert result.fun < 0.1
