"""Make the pictures of the page "Explore": `make explore-docs`. Needs selenium, chromium and chromedriver."""

import base64
import io
import math
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


def reactor(x):
    """A rate law with three local minima that fails where it gets too hot."""
    k, order, heat = x
    if heat > 3.2 + 0.4 * order:
        raise RuntimeError(f"no steady state above {300 + 20 * heat:.0f} K")
    return float((k - 1.3) ** 2 + 4 * (order - k**2 / 2) ** 2 + 0.3 * (heat - 1) ** 2 + 0.3 * (1 - math.cos(4 * k)))


def doses(t, dose, uptake, clearance):
    """A drug in two places of the body, and how often a receptor fires."""
    blood = dose * uptake / (uptake - clearance) * (np.exp(-clearance * t) - np.exp(-uptake * t))
    return {"blood": blood, "tissue": blood**1.2, "spikes": 50 * np.exp(-clearance * t)}


def fit(store):
    """A fit with three laws of the noise, one of them for data in unknown units."""
    import paoswarm as ps

    t, noise = np.linspace(0.5, 12, 24), np.random.default_rng(3)
    truth = doses(t, 10, 1.5, 0.25)
    tissue = ps.Scaled(7 * truth["tissue"] + 2 + noise.normal(size=24), offset=True)
    blood = truth["blood"] * np.exp(0.08 * noise.normal(size=24))
    data = {"blood": blood, "tissue": tissue, "spikes": noise.poisson(truth["spikes"])}
    space = {"dose": (1, 50), "uptake": ps.Real(0.5, 20, log=True), "clearance": ps.Real(0.01, 0.4, log=True)}
    laws = {"blood": "lognormal", "spikes": "poisson"}
    return ps.fit(doses, space, data, likelihood=laws, xdata=t, rng=1, store=store)


def main():
    """Write the pictures beside this file."""
    from scipy import stats
    from selenium import webdriver

    import paoswarm as ps

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    with tempfile.TemporaryDirectory() as folder:
        for flag in ("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", f"user-data-dir={folder}/p"):
            options.add_argument(f"--{flag}")
        run, sampled = Path(folder) / "reactor.paoswarm", Path(folder) / "posterior.paoswarm"
        fitted = Path(folder) / "doses.paoswarm"
        fit(ps.Store(fitted, "never"))
        bounds = [(0, 3), (0, 4), (-2, 6)]
        ps.minimize(reactor, bounds, method=ps.PAO(), n_particles=40, maxfev=1600, rng=3, store=ps.Store(run, "never"))
        prior = {"level": stats.norm(0, 2), "slope": stats.uniform(-3, 8)}
        ps.sample(
            lambda x: -0.5 * ((x[0] - 1) ** 2 / 0.04 + (x[1] - x[0] ** 2) ** 2 / 0.09),
            prior,
            rng=1,
            store=ps.Store(sampled, "never"),
        )
        browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))
        try:
            with ps.explore() as page:
                shoot(browser, page.address + "#swarm?step=4&fun=rosenbrock&seed=2", "swarm.png", 1240, 830)
                shoot(
                    browser,
                    page.address + "#swarm?step=4&fun=griewank-rotated1&seed=4&scale=covariance",
                    "phone.png",
                    390,
                    844,
                    "dark",
                )
            with ps.explore(run) as page:
                shoot(browser, page.address + "#run", "run.png", 1240, 1150)
            with ps.explore(fitted) as page:
                shoot(browser, page.address + "#run", "fit.png", 1240, 1130, ready="#estimates td")
            with ps.explore(sampled) as page:
                shoot(browser, page.address + "#run", "posterior.png", 1240, 860, ready="#posterior-table td")
        finally:
            browser.quit()


def shoot(browser, address, name, width, height, theme="light", ready="html[data-ready]"):
    """Take a picture of a part of the page, with a few colours only: the files stay small."""
    from PIL import Image

    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    browser.get("about:blank")
    browser.get(address)
    deadline = time.monotonic() + 180
    while not browser.find_elements("css selector", ready) and time.monotonic() < deadline:
        time.sleep(0.2)
    time.sleep(5)  # for the answers and the drawing
    picture = browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"]
    image = Image.open(io.BytesIO(base64.b64decode(picture))).convert("RGB")
    few = image.quantize(256, method=Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
    few.save(HERE / name, optimize=True)


if __name__ == "__main__":
    main()
