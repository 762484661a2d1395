"""Six engineering designs with published best values: small, constrained, and some with integers.

Sources of the problems, as collected by Sandgren (1990), Rao, "Engineering Optimization", and Coello (2000):
pressure vessel and gear train (Sandgren), welded beam (Ragsdell and Phillips), spring (Belegundu, Arora), speed reducer
(Golinski), three-bar truss (Nowacki). Multiples are integers here: a thickness of 13 sixteenths is the integer 13.
"""

from __future__ import annotations

import numpy as np
from constrained_problem import ConstrainedProblem, stacked


def _pressure_vessel(shell, head, radius, length):
    """Cost of a cylindrical vessel; its two thicknesses are multiples of a sixteenth of an inch."""
    shell, head = 0.0625 * shell, 0.0625 * head
    cost = (
        0.6224 * shell * radius * length
        + 1.7781 * head * radius**2
        + 3.1661 * shell**2 * length
        + 19.84 * shell**2 * radius
    )
    volume = np.pi * radius**2 * length + 4 / 3 * np.pi * radius**3
    return cost, [0.0193 * radius - shell, 0.00954 * radius - head, 1_296_000 - volume, length - 240], []


def _welded_beam(weld, length, height, width):
    """Cost of a beam that is welded to a wall and loaded at its end."""
    load, free_length, young, shear = 6000, 14, 30e6, 12e6
    direct = load / (np.sqrt(2) * weld * length)
    moment = load * (free_length + length / 2)
    arm = np.sqrt(length**2 / 4 + ((weld + height) / 2) ** 2)
    polar = 2 * np.sqrt(2) * weld * length * (length**2 / 12 + ((weld + height) / 2) ** 2)
    torsion = moment * arm / polar
    stress = np.sqrt(direct**2 + direct * torsion * length / arm + torsion**2)
    bending = 6 * load * free_length / (width * height**2)
    deflection = 4 * load * free_length**3 / (young * height**3 * width)
    buckling = (
        4.013 * young * np.sqrt(height**2 * width**6 / 36) / free_length**2
        * (1 - height / (2 * free_length) * np.sqrt(young / (4 * shear)))
    )  # fmt: skip
    cost = 1.10471 * weld**2 * length + 0.04811 * height * width * (14 + length)
    g = [
        stress - 13600,
        bending - 30000,
        weld - width,
        0.10471 * weld**2 + 0.04811 * height * width * (14 + length) - 5,
        0.125 - weld,
        deflection - 0.25,
        load - buckling,
    ]
    return cost, g, []


def _spring(wire, coil, turns):
    """Weight of a spring in tension or compression."""
    g = [
        1 - coil**3 * turns / (71785 * wire**4),
        (4 * coil**2 - wire * coil) / (12566 * (coil * wire**3 - wire**4)) + 1 / (5108 * wire**2) - 1,
        1 - 140.45 * wire / (coil**2 * turns),
        (wire + coil) / 1.5 - 1,
    ]
    return (turns + 2) * coil * wire**2, g, []


def _speed_reducer(face, module, teeth, length1, length2, shaft1, shaft2):
    """Weight of a gear box; the number of teeth is an integer."""
    weight = (
        0.7854 * face * module**2 * (3.3333 * teeth**2 + 14.9334 * teeth - 43.0934)
        - 1.508 * face * (shaft1**2 + shaft2**2)
        + 7.4777 * (shaft1**3 + shaft2**3)
        + 0.7854 * (length1 * shaft1**2 + length2 * shaft2**2)
    )
    g = [
        27 / (face * module**2 * teeth) - 1,
        397.5 / (face * module**2 * teeth**2) - 1,
        1.93 * length1**3 / (module * teeth * shaft1**4) - 1,
        1.93 * length2**3 / (module * teeth * shaft2**4) - 1,
        np.sqrt((745 * length1 / (module * teeth)) ** 2 + 16.9e6) / (110 * shaft1**3) - 1,
        np.sqrt((745 * length2 / (module * teeth)) ** 2 + 157.5e6) / (85 * shaft2**3) - 1,
        module * teeth / 40 - 1,
        5 * module / face - 1,
        face / (12 * module) - 1,
        (1.5 * shaft1 + 1.9) / length1 - 1,
        (1.1 * shaft2 + 1.9) / length2 - 1,
    ]
    return weight, g, []


def _gear_train(a, b, c, d):
    """Four numbers of teeth whose ratio comes closest to 1 / 6.931."""
    return (1 / 6.931 - a * b / (c * d)) ** 2, [], []


def _three_bar_truss(outer, inner):
    """Volume of a truss with two areas."""
    root, load, limit = np.sqrt(2), 2, 2
    denominator = root * outer**2 + 2 * outer * inner
    g = [
        (root * outer + inner) / denominator * load - limit,
        inner / denominator * load - limit,
        load / (outer + root * inner) - limit,
    ]
    return 100 * (2 * root * outer + inner), g, []


DESIGNS = {}


def _add(name, function, bounds, best_value, best_point, integrality=None):
    DESIGNS[name] = ConstrainedProblem(name, bounds, stacked(function), best_value, best_point, integrality)


_add("pressure vessel", _pressure_vessel, [(1, 99), (1, 99), (10, 200), (10, 200)], 6059.714335048436,
     [13, 7, 42.09844559585492, 176.63659584243942], [1, 1, 0, 0])  # fmt: skip
_add("welded beam", _welded_beam, [(0.1, 2), (0.1, 10), (0.1, 10), (0.1, 2)], 1.724852308597365,
     [0.2057296397860794, 3.4704886656280087, 9.036623910357633, 0.2057296397860795])  # fmt: skip
_add("tension spring", _spring, [(0.05, 2), (0.25, 1.3), (2, 15)], 0.012665232788319,
     [0.051689061554323, 0.3567177511439233, 11.2889650865217])  # fmt: skip
_add("speed reducer", _speed_reducer,
     [(2.6, 3.6), (0.7, 0.8), (17, 28), (7.3, 8.3), (7.3, 8.3), (2.9, 3.9), (5, 5.5)], 2994.471066146821,
     [3.5, 0.7, 17, 7.3, 7.715319911478248, 3.3502146660964485, 5.286654464980223], [0, 0, 1, 0, 0, 0, 0])  # fmt: skip
_add("gear train", _gear_train, [(12, 60)] * 4, 2.7008571488865134e-12, [16, 19, 43, 49], [1, 1, 1, 1])
_add("three-bar truss", _three_bar_truss, [(0.001, 1), (0.001, 1)], 263.8958433764684,
     [0.788675134595, 0.408248290463863])  # fmt: skip
