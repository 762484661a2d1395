"""Both rooms in a browser, at the width of a desk and of a phone: what is clicked is what the library computes."""

import itertools
import json
import math
import time

import numpy as np
import pytest
from written_stores import evaluation, header, opened, write

import paoswarm as ps
from paoswarm.explorer.swarm_room import Settings

pytest.importorskip("selenium", reason="needs selenium")

from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

DESK, PHONE = 1280, 390
HOSTILE = ("</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Thirty evaluations of a run with hostile names and messages."""
    records = [opened(0.0)]
    for i in range(30):
        x = (-4 + 8 * i / 29, 3 - 0.1 * i)
        if i % 10 == 4:
            records.append(
                evaluation(i, 1.0 + i + 0.3 * (i % 3), None, x, why={"0": f"raised ValueError: {HOSTILE[i % 20 == 4]}"})
            )
        else:
            records.append(evaluation(i, 1.0 + i + 0.3 * (i % 3), (x[0] - 1) ** 2 + x[1] ** 2, x))
    records.append({"end": {"status": "X", "message": HOSTILE[0], "final": True, "t": 40.0}})
    return write(tmp_path_factory.mktemp("store") / "run.paoswarm", header(names=list(HOSTILE)), records)


@pytest.fixture(scope="module")
def explorer(store):
    with ps.explore(store) as found:
        yield found


@pytest.fixture(params=[DESK, PHONE], ids=["desk", "phone"])
def page(browser, explorer, request):
    """Open a room; nothing may reach the console, no other address is asked, nothing is wider than the window."""

    def show(fragment):
        for kind in ("browser", "performance"):
            browser.get_log(kind)
        size = {"width": request.param, "height": 900, "deviceScaleFactor": 1, "mobile": request.param < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get("about:blank")
        browser.get(explorer.address + fragment)
        until(browser, lambda page: page.execute_script("return document.documentElement.dataset.ready") == "yes")
        return browser

    yield show
    assert browser.execute_script("return document.scrollingElement.scrollWidth") <= request.param
    # What the library refuses is shown on the page, and the browser notes the status; `drawn` reads pixels.
    said = [entry["message"] for entry in browser.get_log("browser")]
    assert [one for one in said if "422" not in one and "getImageData" not in one] == []
    messages = (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert [url for url in asked if url.startswith(("http", "ws")) and not url.startswith(explorer.address)] == []
    assert sum(url.startswith(explorer.address) for url in asked) > 10


def until(browser, condition):
    return WebDriverWait(browser, 60, poll_frequency=0.05).until(condition)


def text(browser, name):
    return browser.find_element(By.ID, name).text


def snippet(browser):
    return browser.execute_script("return document.getElementById('snippet').textContent")


def put(browser, name, value):
    """Move a slider or fill a field, as a pointer does."""
    script = """
        const it = document.getElementById(arguments[0]);
        it.value = arguments[1];
        it.dispatchEvent(new Event("input"));
        """
    browser.execute_script(script, name, value)


def click(browser, name):
    browser.execute_script("document.getElementById(arguments[0]).scrollIntoView({ block: 'center' })", name)
    browser.find_element(By.ID, name).click()


def drawn(browser, name):
    """Share of the pixels of a canvas that are not empty."""
    script = """
        const it = document.getElementById(arguments[0]);
        it.scrollIntoView({ block: "center" });
        const { data } = it.getContext("2d").getImageData(0, 0, it.width, it.height);
        let full = 0;
        for (let i = 3; i < data.length; i += 4) full += data[i] > 0;
        return full / (data.length / 4);
        """
    return until(browser, lambda page: page.execute_script(script, name))


def test_the_swarm_room(page, explorer):
    browser = page("#swarm?seed=3&step=2&damping=0.3&fun=ackley")
    until(browser, lambda _: snippet(browser) == Settings(seed=3, step=2, damping=0.3, fun="ackley").snippet)
    method = ps.PAO(damping=0.3)
    assert float(text(browser, "spread")) == pytest.approx(method.stationary_spread, rel=0.01)
    for name in ("stage", "fall", "response", "gauge", "s-plane", "z-plane"):
        assert drawn(browser, name) > 0.005, name
    put(browser, "number-damping", "0.7")
    until(browser, lambda _: "damping=0.7" in snippet(browser))
    assert "below 0.5 the swarm tends to stagnate early" in text(browser, "concern")
    click(browser, "forward")
    until(browser, lambda _: "range(4)" in snippet(browser))
    assert text(browser, "where") == "step 3"
    click(browser, "play")
    until(browser, lambda _: int(text(browser, "where").split()[1]) >= 6)
    click(browser, "play")
    shown = int(text(browser, "where").split()[1])
    time.sleep(0.4)
    assert int(text(browser, "where").split()[1]) <= shown + 1
    Select(browser.find_element(By.ID, "function")).select_by_value("sphere")
    click(browser, "shifted")
    until(browser, lambda _: "'sphere-shifted1'" in snippet(browser))
    click(browser, "restart")
    until(browser, lambda _: "range(1)" in snippet(browser))
    wanted = Settings(seed=3, damping=0.7, fun="sphere-shifted1")
    assert snippet(browser) == wanted.snippet
    until(browser, lambda page: page.current_url == f"{explorer.address}#swarm?{wanted.link}")
    put(browser, "number-local", "0")
    put(browser, "number-leader", "0")
    until(browser, lambda _: "at least one must pull" in text(browser, "trouble"))
    click(browser, "defaults")
    until(browser, lambda _: snippet(browser) == Settings().snippet)
    assert text(browser, "trouble") == ""


@pytest.mark.parametrize("page", [DESK], indirect=True)
def test_sliders_and_rooms_by_keyboard(page):
    browser = page("")
    until(browser, lambda _: snippet(browser) == Settings().snippet)
    browser.find_element(By.ID, "range-damping").send_keys(Keys.ARROW_RIGHT)
    until(browser, lambda _: "damping=0.204" in snippet(browser))
    browser.find_element(By.ID, "tab-swarm").send_keys(Keys.ARROW_RIGHT)
    assert browser.switch_to.active_element.get_attribute("id") == "tab-run"
    assert browser.find_element(By.ID, "run").is_displayed()
    assert not browser.find_element(By.ID, "swarm").is_displayed()
    theme = browser.find_element(By.ID, "theme")
    theme.click()
    theme.click()
    assert browser.execute_script("return document.documentElement.dataset.theme") == "dark"


def test_the_run_room_and_hostile_names(page, store):
    browser = page("#run")
    until(browser, lambda _: "best value" in text(browser, "metrics"))
    best = min((x0 - 1) ** 2 + x1**2 for (x0, x1), f in zip(*ps.Store(store).read(), strict=True) if f == f)
    assert f"{best:.6g}"[:6] in text(browser, "metrics")
    assert text(browser, "run-message") == HOSTILE[0]
    assert text(browser, "run-word") == "ended"
    for name in ("convergence", "parallel", "pair", "rate", "durations"):
        assert drawn(browser, name) > 0.005, name
    assert all(HOSTILE[i] in text(browser, "unknowns") for i in (0, 1))
    assert all(f"raised ValueError: {one}" in text(browser, "failures") for one in HOSTILE)
    assert [option.text for option in Select(browser.find_element(By.ID, "pair-up")).options] == list(HOSTILE)
    assert len(browser.find_elements(By.CSS_SELECTOR, "#slices canvas")) == 2
    before = text(browser, "unknowns")
    put(browser, "share", "30")
    until(browser, lambda _: text(browser, "unknowns") != before)
    Select(browser.find_element(By.ID, "y-mode")).select_by_value("linear")
    Select(browser.find_element(By.ID, "x-mode")).select_by_value("elapsed")
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert.text
    assert browser.execute_script("return document.images.length") == 1  # the page's own


NOTE_TEXTS = """
window.texts = new Map();
const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const name = this.canvas.getAttribute("aria-label") || this.canvas.id;
  const place = this.textBaseline === "top" ? Math.round(x) : -1; // of a mark below the axis
  window.texts.set(name, { ...window.texts.get(name), [`${text}${place < 0 ? " beside" : ""}`]: place });
  return write.call(this, text, x, y);
};
"""


def test_logarithmic_scales_and_entries_of_choices_are_drawn(browser, tmp_path):
    path = tmp_path / "space.paoswarm"
    space = {"rate": ps.Real(1e-3, 1e3, log=True), "kernel": ps.Choice(["rbf", "matern", HOSTILE[1]])}
    how = {"method": ps.PAO(), "n_particles": 20, "maxiter": 3, "rng": 1, "store": ps.Store(path, "never")}
    ps.minimize(lambda p: (math.log10(p["rate"]) - 1) ** 2 + (p["kernel"] != "matern"), space, **how)
    size = {"width": DESK, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    noted = browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": NOTE_TEXTS})
    with ps.explore(path) as room:
        browser.get("about:blank")
        browser.get(room.address + "#run")
        until(browser, lambda _: "matern" in text(browser, "unknowns"))
        assert "<img src=…" in text(browser, "unknowns")  # the last entry that was tried
        for name in ("parallel", "pair"):
            assert drawn(browser, name) > 0.005
        for canvas in browser.find_elements(By.CSS_SELECTOR, "#slices canvas"):
            browser.execute_script("arguments[0].scrollIntoView({ block: 'center' })", canvas)
        texts = until(browser, lambda _: all_texts(browser))
    browser.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", noted)
    rate = texts["rate against value"]
    apart = [b - a for a, b in itertools.pairwise(rate[one] for one in ("0.001", "0.1", "10", "1000"))]
    assert max(apart) - min(apart) <= 20  # equal factors are equally far apart; the outer marks are moved inwards
    assert {"rbf", "matern"} <= set(texts["kernel against value"])
    assert {"rbf beside", "matern beside", "0.1"} <= set(texts["Pair of unknowns"])
    assert {"rbf beside", "matern beside"} <= set(texts["Parallel coordinates"])


def all_texts(browser):
    found = browser.execute_script("return Object.fromEntries(window.texts)")
    return found if {"rate against value", "kernel against value", "Pair of unknowns"} <= set(found) else None


def test_the_data_of_a_fit(browser, tmp_path):
    t, path = np.arange(1.0, 9.0), tmp_path / "fit.paoswarm"
    data = {HOSTILE[1]: 3 * np.exp(-0.5 * t) + 0.01 * np.sin(40 * t), "light": np.exp(-0.5 * t)}

    def simulate(p):
        return {HOSTILE[1]: p["a"] * np.exp(-p["k"] * t), "light": np.exp(-p["k"] * t)}

    fit = ps.fit(simulate, {"a": (0.5, 10), "k": (0.01, 5)}, data, sigma=0.01, rng=1, store=ps.Store(path, "never"))
    for width in (DESK, PHONE):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        with ps.explore(path) as room:
            browser.get("about:blank")
            browser.get(room.address + "#run")
            until(browser, lambda _: f"{fit.x[0]:.6g}" in text(browser, "estimates"))
            assert f"{len(fit.searches)} ended" in text(browser, "searches-hint")
            assert drawn(browser, "waterfall") > 0.005
            assert len(browser.find_elements(By.CSS_SELECTOR, "#fit-curves canvas")) == 4
            assert HOSTILE[1] in text(browser, "fit-curves")
            assert not browser.find_element(By.ID, "posterior-card").is_displayed()
            assert browser.execute_script("return document.scrollingElement.scrollWidth") <= width
            assert browser.execute_script("return document.images.length") == 1


def test_a_growing_run_is_followed(browser, tmp_path):
    path = write(tmp_path / "growing.paoswarm", header(), [opened(0.0), evaluation(0, 1.0, 7.0)])
    with ps.explore(path) as growing:
        browser.get(growing.address + "#run")
        until(browser, lambda _: "1 of 100" in text(browser, "metrics"))
        write_more(path, [evaluation(1, 2.0, 3.5), evaluation(2, 3.0, None, why={"0": "raised OSError: full"})])
        until(
            browser,
            lambda _: "3 of 100" in text(browser, "metrics") and "raised OSError: full" in text(browser, "failures"),
        )
        assert "3.5" in text(browser, "metrics")
    until(browser, lambda _: "The explorer has ended" in text(browser, "trouble"))


def write_more(path, records):
    from paoswarm.store.log import encode

    with path.open("ab") as file:
        file.write(b"".join(map(encode, records)))
