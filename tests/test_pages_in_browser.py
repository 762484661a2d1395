"""The pages of the documentation at the width of a desk and of a phone: nothing is cut off, every picture is shown.

They are those that `make docs` has built last; `make test` builds them before it runs the tests.
"""

import pathlib

import pytest

BUILT = pathlib.Path(__file__).parents[1] / "docs" / "_build" / "html"
pytestmark = pytest.mark.skipif(not (BUILT / "index.html").is_file(), reason="needs `make docs`")

DESK, PHONE = 1280, 390
FIRST_SEEN = ("index", "tutorial", "calibrate", "which_tool", "coming_from/samplers")
FAULTS = """
const cut = [...document.querySelectorAll("pre")].filter(e => e.scrollWidth > e.clientWidth + 1);
const shown = [...document.images].filter(e => e.offsetParent !== null && e.loading !== "lazy");
const width = document.scrollingElement.scrollWidth;
return [
    ...cut.map(e => "cut off: " + e.textContent.slice(0, 60)),
    ...shown.filter(e => !e.complete || e.naturalWidth === 0).map(e => "no picture: " + e.src),
    ...(width > window.innerWidth ? ["the page is " + width + " wide"] : []),
];
"""


def show(browser, page, width, theme="light"):
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = {"features": [{"name": "prefers-color-scheme", "value": theme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", scheme)
    browser.get(f"file://{BUILT / page}.html")


def faults(browser, pages):
    found = {}
    for page in pages:
        for width in (DESK, PHONE):
            show(browser, page, width)
            if said := browser.execute_script(FAULTS):
                found[page, width] = said
    return found


def test_nothing_is_cut_off_on_the_pages_that_are_read_first(browser):
    assert faults(browser, FIRST_SEEN) == {}


@pytest.mark.slow
def test_nothing_is_cut_off_on_any_page(browser):
    pages = [str(file.relative_to(BUILT).with_suffix("")) for file in sorted(BUILT.rglob("*.html"))]
    assert faults(browser, [page for page in pages if not page.startswith(("_", "genindex", "search"))]) == {}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_front_picture_suits_the_page(browser, theme):
    show(browser, "index", DESK, theme)
    shown = [image.get_attribute("src") for image in browser.find_elements("tag name", "img") if image.is_displayed()]
    assert [pathlib.Path(source).name for source in shown] == [f"front-{theme}.png"]


def test_the_search_for_faults_finds_them(browser, tmp_path):
    page = tmp_path / "wide.html"
    page.write_text('<pre style="width: 99px; overflow: auto">' + 99 * "x" + "</pre><img src='none.png' alt='none'>")
    browser.get(f"file://{page}")
    said = browser.execute_script(FAULTS)
    assert [text.split(":")[0] for text in said] == ["cut off", "no picture"]
