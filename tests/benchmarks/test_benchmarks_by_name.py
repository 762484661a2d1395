"""`python -m benchmarks` knows every script that measures, and pages name no other."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def listed():
    """The names that the command prints."""
    done = subprocess.run([sys.executable, "-m", "benchmarks"], cwd=ROOT, capture_output=True, text=True, check=True)
    return {line.split()[0] for line in done.stdout.splitlines()}


def test_pages_and_the_makefile_name_benchmarks_that_exist():
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.py"), ROOT / "Makefile"]
    text = "\n".join(page.read_text() for page in pages)
    named = set(re.findall(r"make bench NAME=(\w+)|PEERS_OF_(\w+)", text))
    names = {one or other for one, other in named}
    assert len(names) > 10
    assert names - listed() == set()
    assert not re.search(r"make bench-", text)


def test_an_unknown_name_is_answered_by_the_list():
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "x"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "speed" in done.stdout
