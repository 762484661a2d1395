"""The glossary: its words are in order, and every one of them is used on another page or in the library's messages."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
WORDS = re.findall(r"^([a-z].*)\n  \S", re.search(r"```\{glossary\}\n(.*?)```", GLOSSARY, re.DOTALL)[1], re.MULTILINE)


def pages_and_sources():
    pages = [
        page for page in (ROOT / "docs").glob("**/*.md") if page.name != "glossary.md" and "_build" not in page.parts
    ]
    files = [*pages, *(ROOT / "src").glob("**/*.py")]
    return re.sub(r"\s+", " ", " ".join(file.read_text(encoding="utf-8") for file in files)).lower()


def test_words_are_in_order_and_occur_once():
    assert len(WORDS) > 50
    assert sorted(set(WORDS)) == WORDS


def test_every_word_is_used_elsewhere():
    text = pages_and_sources()
    assert [word for word in WORDS if word not in text] == []
    assert "a word that nobody uses" not in text  # the search can fail


def test_names_in_the_glossary_are_names_of_the_library():
    code = pages_and_sources()
    for name in re.findall(r"`([A-Za-z_.]+)[(=`]", GLOSSARY):
        assert name.lower().split(".")[-1] in code
