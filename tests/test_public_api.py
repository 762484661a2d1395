"""The API page and ``paoswarm.__all__`` name the same things, and every one is imported from ``paoswarm`` itself."""

import importlib.util
import inspect
import pathlib
import re
import sys

import pytest

import paoswarm

PAGE = (pathlib.Path(__file__).parents[1] / "docs" / "api.md").read_text(encoding="utf-8")
COMMAND_LINE = "paoswarm.cli"  # its page describes the command `paoswarm`, which nobody imports


def documented_paths(page):
    """The dotted path of every object on the page: those of the directives, and their members."""
    paths = []
    for directive in re.finditer(r"^\.\. auto\w+:: (\S+)\n((?:   :.*\n)*)", page, flags=re.MULTILINE):
        paths.append(directive[1])
        members = re.search(r":members:(.*)", directive[2])
        if members:
            names = [name.strip() for name in members[1].split(",")]
            paths += [f"{directive[1]}.{name}" for name in names]
    return [path for path in paths if path != COMMAND_LINE]


def look_up(path):
    """The object that attributes lead to, starting at the imported package; nothing else is imported."""
    found = sys.modules["paoswarm"]
    for name in path.split(".")[1:]:
        found = getattr(found, name)
    return found


def lacks_its_package(path):
    """Whether it belongs to a module like ``paoswarm.sklearn``, and the package of that name is not installed."""
    module = path.split(".")[1]
    return module in ("sklearn",) and importlib.util.find_spec(module) is None


def missing_from_page(page, names):
    documented = {path.split(".")[1] for path in documented_paths(page)}
    return sorted(set(names) - documented)


def not_exported(page, names):
    """Paths on the page that do not start with ``paoswarm.NAME``, where NAME is exported."""
    beginnings = {f"paoswarm.{name}" for name in names}
    return [path for path in documented_paths(page) if ".".join(path.split(".")[:2]) not in beginnings]


def needlessly_long(page):
    """Paths on the page to objects that `paoswarm` or one of its namespaces also exports under a shorter one."""
    short = {
        id(getattr(space, name)): f"{space.__name__}.{name}"
        for space in (paoswarm.classic, paoswarm.errors, paoswarm.laws, paoswarm.results, paoswarm.study, paoswarm)
        for name in space.__all__
    }
    paths = [path for path in documented_paths(page) if not lacks_its_package(path)]
    return [path for path in paths if path != short.get(id(look_up(path)), path)]


def test_every_exported_name_is_documented():
    assert missing_from_page(PAGE, paoswarm.__all__) == []


def test_every_documented_name_is_exported():
    assert not_exported(PAGE, paoswarm.__all__) == []


def test_every_documented_name_exists():
    for path in documented_paths(PAGE):
        assert lacks_its_package(path) or look_up(path) is not None


def test_documented_paths_are_the_short_ones():
    assert needlessly_long(PAGE) == []


def test_nothing_is_documented_twice():
    paths = documented_paths(PAGE)
    assert sorted({path for path in paths if paths.count(path) > 1}) == []


def test_exported_names_are_unique_and_listed_by_dir():
    assert len(set(paoswarm.__all__)) == len(paoswarm.__all__)
    assert set(paoswarm.__all__) <= set(dir(paoswarm))


def test_every_exported_name_is_imported_on_first_use_from_where_it_is_defined():
    assert list(paoswarm._ON_FIRST_USE) == paoswarm.__all__
    for name in paoswarm.__all__:
        found = getattr(paoswarm, name)
        home = paoswarm._ON_FIRST_USE[name].partition(":")[0]
        assert getattr(found, "__module__", found.__name__ if inspect.ismodule(found) else home) == home


def test_no_exported_function_shares_its_name_with_a_module():
    """Importing the module would put it in the place of the function."""
    functions = [name for name in paoswarm.__all__ if not inspect.ismodule(getattr(paoswarm, name))]
    assert [name for name in functions if importlib.util.find_spec(f"paoswarm.{name}")] == []


SPACES = ["classic", "engines", "errors", "laws", "optuna", "plot", "results", "sklearn", "study"]


@pytest.mark.parametrize("space", SPACES)
def test_every_name_of_a_namespace_is_documented_and_listed_by_dir(space):
    module = getattr(paoswarm, space)
    assert {f"paoswarm.{space}.{name}" for name in module.__all__} <= set(documented_paths(PAGE))
    assert set(module.__all__) <= set(dir(module))


def test_a_page_of_names_is_enough():
    assert len(paoswarm.__all__) <= 45
    assert dir(paoswarm.plot) == ["convergence", "corner", "element", "searches", "swarm"]


WRONG_PAGE = """
.. autofunction:: numpy.sum
.. automodule:: paoswarm.noise
   :members: spread, covariance
.. autoclass:: paoswarm.store.log.StoreError
"""


def test_each_check_finds_its_mistake():
    assert "paoswarm.noise.covariance" in documented_paths(WRONG_PAGE)
    assert missing_from_page(WRONG_PAGE, ["noise", "PAO"]) == ["PAO"]
    assert not_exported(WRONG_PAGE, paoswarm.__all__) == ["numpy.sum", "paoswarm.store.log.StoreError"]
    assert needlessly_long(".. autoclass:: paoswarm.store.log.StoreError\n") == ["paoswarm.store.log.StoreError"]
    with pytest.raises(AttributeError):
        look_up("paoswarm.PAO.no_such_member")
