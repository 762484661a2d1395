"""Draw the pictures of the documentation, each for light and for dark pages: `make pictures`.

With names, only these: `python docs/pictures/draw.py front noisy`.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from PIL import Image
from scipy import stats

import paoswarm as ps

HERE = Path(__file__).parent
INK = {"light": "#22313d", "dark": "#d5dde4"}
GROUND = {"#22313d": "#ffffff", "#d5dde4": "#131416"}  # what the page is like behind the picture
BLUE, ORANGE, GREEN, RED, GREY = "#3d8bd0", "#ee8a3c", "#3aa76d", "#d9534f", "#8796a3"
IN_BED = np.array([3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4])
SPACE = {"contact": (0.0, 20.0), "recovery": (0.0, 5.0)}


def epidemic(contact, recovery, days: float = 14, each: int = 24):
    """Boys in bed every ``each`` hours: the model of the page "Calibrate a simulator"."""
    well, ill, counts = 762.0, 1.0, []
    for hour in range(1, int(24 * days) + 1):
        infected = contact * well * ill / 763 / 24
        well, ill = well - infected, ill + infected - recovery * ill / 24
        if hour % each == 0:
            counts.append(ill + 0 * contact)
    return np.array(counts)


def misfit(p):
    """Sum of squares, of many points at once."""
    return ((epidemic(p["contact"], p["recovery"]) - IN_BED[:, None]) ** 2).sum(axis=0)


def posterior():
    """The posterior of the page "Calibrate a simulator"."""

    def log_likelihood(p):
        return -0.5 * misfit(p) / p["noise"] ** 2 - len(IN_BED) * np.log(p["noise"])

    return ps.sample(log_likelihood, {**SPACE, "noise": ps.Real(1, 200, log=True)}, vectorized=True, rng=1)


def draw_fit(ax, drawn) -> None:
    """Data, and the bands of the curve and of a new count."""
    time = np.arange(6, 14 * 24 + 1, 6) / 24
    contact, recovery, noise = drawn.draws.T
    curves = epidemic(contact, recovery, each=6)
    counts = curves + noise * np.random.default_rng(1).standard_normal(curves.shape)
    for values, alpha, label in ((counts, 0.22, "95 %: a new count"), (curves, 0.55, "95 %: the curve")):
        low, high = np.quantile(values, [0.025, 0.975], axis=1)
        ax.fill_between(time, np.maximum(low, 0), high, color=BLUE, alpha=alpha, linewidth=0, label=label)
    ax.plot(np.arange(1, 15), IN_BED, "o", color=ORANGE, markersize=5, label="data")
    ax.set(xlabel="day", ylabel="boys in bed", xlim=(0, 14.4), ylim=(0, 430), xticks=range(0, 15, 2))
    ax.legend(frameon=False, loc="upper right", handlelength=1.2, borderaxespad=0.0)


def draw_swarm(ax, ink: str) -> None:
    """A swarm over the contours of the misfit, from its first to its twelfth generation."""
    low, high = np.array([0.3, 0.05]), np.array([4.5, 2.0])
    optimizer = ps.Optimizer(list(zip(low, high, strict=True)), method="PAO", n_particles=18, rng=4)
    path = []
    for _ in range(13):
        x = optimizer.ask()
        path.append(x)
        optimizer.tell(misfit({"contact": x[:, 0], "recovery": x[:, 1]}))
    path = np.array(path)
    a, b = np.meshgrid(*(np.linspace(low[k], high[k], 140) for k in (0, 1)))
    values = np.log10(misfit({"contact": a.ravel(), "recovery": b.ravel()})).reshape(a.shape)
    ax.contour(a, b, values, levels=np.arange(3.6, 6.6, 0.2), colors=ink, linewidths=0.6, alpha=0.28)
    for k in range(path.shape[1]):
        ax.plot(*path[:5, k].T, color=BLUE, linewidth=0.6, alpha=0.25)
    for generation, size, colour in ((0, 14, BLUE), (4, 20, GREEN), (12, 26, ORANGE)):
        ax.scatter(*path[generation].T, s=size, color=colour, zorder=3, linewidths=0, label=f"generation {generation}")
    ax.set(xlabel="contact, per day", ylabel="recovery, per day", xlim=(low[0], high[0]), ylim=(low[1], 2.35))
    ax.legend(loc="upper right", edgecolor="none", handletextpad=0.1, borderaxespad=0.1)


def front(ink: str) -> Figure:
    """What the library is, in one picture."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(6.5, 3.0), layout="constrained")
    draw_fit(left, posterior())
    draw_swarm(right, ink)
    return figure


def fitted() -> ps.results.Fit:
    """The fit of the page "Calibrate a simulator"."""
    return ps.fit(lambda p: epidemic(p["contact"], p["recovery"]), SPACE, IN_BED, rng=1)


def epidemic_fit(ink: str) -> Figure:
    """The fit with its bands and residuals."""
    figure = fitted().plot().ravel()[0].figure
    figure.set_size_inches(6.4, 4.0)
    return figure


def epidemic_pairs(ink: str) -> Figure:
    """The posterior in pairs."""
    return fitted().sample(rng=1).plot().ravel()[0].figure


def decay_pairs(ink: str) -> Figure:
    """The posterior of the page "Posterior and evidence"."""
    time = np.array([0.5, 1.0, 2.0, 3.0, 5.0, 8.0])
    seen = np.array([7.9, 6.6, 4.3, 3.2, 1.2, 0.4])

    def log_likelihood(x):
        return stats.norm(x[:, :1] * np.exp(-x[:, 1:2] * time), x[:, 2:]).logpdf(seen).sum(axis=1)

    prior = {
        "amplitude": stats.uniform(0, 100),
        "rate": stats.uniform(0, 10),
        "noise": stats.lognorm(1, scale=0.3),
    }
    return ps.sample(log_likelihood, prior, vectorized=True, rng=1).plot().ravel()[0].figure


def searches(ink: str) -> Figure:
    """Searches of one run on Rastrigin's function."""

    def rastrigin(x):
        return (x**2 - 10 * np.cos(2 * np.pi * x) + 10).sum(axis=-1)

    result = ps.minimize(rastrigin, [(-5, 6), (-4, 7)], vectorized=True, rng=1)
    figure = ps.plot.searches(result).figure
    figure.set_size_inches(6.4, 2.8)
    return figure


def swarm(ink: str) -> Figure:
    """One swarm with the laws of its next steps."""

    def himmelblau(x):
        return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2

    early = ps.minimize(himmelblau, [(0, 5), (0, 5)], method="PAO", n_particles=24, maxiter=4, rng=1)
    figure = ps.plot.swarm(early, himmelblau).figure
    figure.set_size_inches(4.8, 4.2)
    return figure


def noisy(ink: str) -> Figure:
    """What a run on a noisy function says, and what is true."""
    figure, panels = plt.subplots(1, 2, figsize=(6.8, 2.7), sharey=True, layout="constrained")
    for ax, title, reevaluate in zip(panels, ("without", "reevaluate=0.2"), (0.0, 0.2), strict=True):
        chance = np.random.default_rng(1)
        seen: list[tuple[int, float, float]] = []

        def fun(x, chance=chance):
            return ((x - 1.5) ** 2).sum(axis=-1) + chance.normal(size=len(x))

        def note(intermediate_result, seen=seen):
            now = intermediate_result
            seen.append((now.nfev, float(now.fun), float(((now.x - 1.5) ** 2).sum())))

        ps.minimize(
            fun,
            [(-5, 5)] * 4,
            method="PAO",
            vectorized=True,
            maxiter=None,
            maxfev=20000,
            reevaluate=reevaluate,
            tol=0,
            callback=note,
            rng=1,
        )
        evaluations, stated, true = np.array(seen).T
        ax.plot(evaluations, stated, color=BLUE, label="stated value of the best point")
        ax.plot(evaluations, true, color=ORANGE, label="its true value")
        ax.axhline(0, color=ink, linewidth=0.6, alpha=0.6)
        ax.set(title=title, xlabel="evaluations", xscale="log", ylim=(-4.4, 4.4))
        ax.xaxis.set_minor_locator(NullLocator())
    panels[0].set_ylabel("value")
    panels[0].legend(frameon=False, loc="upper right")
    return figure


def bbob(ink: str) -> Figure:
    """Targets of COCO's bbob suite reached over evaluations, from the runs of `make bench NAME=search`."""
    shown = {
        "AdaptivePAO": (BLUE, 2.4),
        "BIPOP-CMA-ES": (ORANGE, 1.4),
        "SciPy DE, restarted": (GREEN, 1.4),
        "BiteOpt": (RED, 1.4),
        "dual annealing": ("#a877c9", 1.4),
        "L-SHADE": (GREY, 1.4),
    }
    lines = (HERE.parents[1] / "benchmarks/results/search.jsonl").read_text(encoding="utf-8").splitlines()
    figure, panels = plt.subplots(1, 2, figsize=(7.2, 3.2), sharey=True, layout="constrained")
    for ax, dim in zip(panels, (5, 10), strict=True):
        hits: dict[str, list[float]] = {name: [] for name in shown}
        for line in lines:
            run = json.loads(line)
            search, *rest = run["key"].split("|")
            if search in shown and len(rest) == 4 and rest[1] == str(dim) and rest[3] == "10000":
                reached = list(run["hits"])
                hits[search] += [*reached, *[np.inf] * (51 - len(reached))]
        at = np.geomspace(1, 10000, 300)
        for name, (colour, width) in shown.items():
            each = np.sort([np.inf if h is None else h / dim for h in hits[name]])
            share = 100 * np.searchsorted(each, at, side="right") / len(each)
            ax.plot(at, share, color=colour, linewidth=width, label=name)
        ax.set(
            title=f"{dim} unknowns", xscale="log", xlabel="evaluations for each unknown", xlim=(1, 10000), ylim=(0, 100)
        )
        ax.xaxis.set_minor_locator(NullLocator())
    panels[0].set_ylabel("targets reached, %")
    panels[0].legend(frameon=False, loc="upper left")
    return figure


PICTURES: dict[str, Callable[[str], Figure]] = {
    "front": front,
    "epidemic": epidemic_fit,
    "epidemic_pairs": epidemic_pairs,
    "decay_pairs": decay_pairs,
    "searches": searches,
    "swarm": swarm,
    "noisy": noisy,
    "bbob": bbob,
}


def style(ink: str) -> dict:
    """Lines and letters in one colour, and no ground."""
    inked = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "axes.titlecolor")
    return dict.fromkeys(inked, ink) | {
        "figure.facecolor": "none",
        "axes.facecolor": "none",
        "savefig.facecolor": "none",
        "legend.facecolor": GROUND[ink],
        "legend.framealpha": 0.85,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": 11,
        "legend.fontsize": 9,
        "font.size": 10.5,
    }


def main(names: list[str]) -> None:
    """Write the pictures beside this file."""
    mpl.use("Agg")
    for name in names or PICTURES:
        for theme, ink in INK.items():
            with plt.rc_context(style(ink)):
                file = HERE / f"{name}-{theme}.png"
                PICTURES[name](ink).savefig(file, dpi=190)
                plt.close("all")
            # 256 colours are enough, and a third of the size.
            Image.open(file).quantize(256, method=Image.Quantize.FASTOCTREE).save(file, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
