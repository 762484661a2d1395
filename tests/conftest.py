import logging
import shutil
import signal
import threading

import by_hand
import pytest

if threading.current_thread() is threading.main_thread():
    # Whoever starts the tests in the background may have told them, and all their children, to ignore interrupts.
    signal.signal(signal.SIGINT, signal.default_int_handler)

_BROWSER_FLAGS = (
    *("headless=new", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "no-first-run"),
    *("disable-background-networking", "disable-component-update", "disable-sync"),
    "host-resolver-rules=MAP * 0.0.0.0, EXCLUDE 127.0.0.1",
)


@pytest.fixture
def swarm():
    """Four particles in the box (-1, 3) x (-2, 4), written out in `by_hand`."""
    return by_hand.swarm()


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """Chromium without a window, which reaches this machine only and tells what pages say and ask for."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in (*_BROWSER_FLAGS, f"user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(f"--{flag}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    yield found
    found.quit()


@pytest.fixture(autouse=True)
def _logging_as_it_was():
    """Libraries that other tests import may have changed the logging of the whole process."""
    logger = logging.getLogger("paoswarm")
    logger.disabled, logger.propagate = False, True
    logger.setLevel(logging.NOTSET)
    logging.disable(logging.NOTSET)
