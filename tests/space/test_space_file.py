"""Variables from a TOML file: every form, and mistakes that name the file, the variable and what to do."""

import re

import pytest
from scipy import stats

import paoswarm as ps


def read(tmp_path, text, **options):
    file = tmp_path / "space.toml"
    file.write_text(text)
    return ps.read_space(file, **options)


@pytest.mark.parametrize(
    ("entry", "variable"),
    [
        ("[-5, 5]", ps.Real(-5, 5)),
        ("{ low = 1e-6, high = 1e3, log = true }", ps.Real(1e-6, 1e3, log=True)),
        ("{ low = 1e-6, high = 1e3, log = false }", ps.Real(1e-6, 1e3)),
        ("{ log = [1e-6, 1e3] }", ps.Real(1e-6, 1e3, log=True)),
        ("{ integer = [1, 8] }", ps.Integer(1, 8)),
        ("{ low = 1, high = 8, integer = true }", ps.Integer(1, 8)),
        ("{ periodic = [0, 360] }", ps.Periodic(0, 360)),
        ('["rbf", "matern"]', ps.Choice(["rbf", "matern"])),
        ('["rbf", 2, 2.5]', ps.Choice(["rbf", 2, 2.5])),
        ("[true, false]", ps.Choice([True, False])),
        ("{ choice = [1, 2, 4] }", ps.Choice([1, 2, 4])),
        ("{ choice = [1, 2] }", ps.Choice([1, 2])),
        ("{ choice = [1, inf] }", ps.Choice([1, float("inf")])),
        ("{ integer = [1.0, 8] }", ps.Integer(1, 8)),
        ("3.0", 3.0),
        ('"fast"', "fast"),
        ("{ fixed = 2 }", 2),
        ("{ low = 0, high = 1, prior = { normal = [0.5, 1] } }", ps.Real(0, 1)),
    ],
)
def test_every_form_of_a_variable(entry, variable, tmp_path):
    assert read(tmp_path, f"x = {entry}") == {"x": variable}


def test_the_order_of_the_file_is_kept(tmp_path):
    assert list(read(tmp_path, "b = [0, 1]\na = [0, 1]\n[c]\nlow = 0\nhigh = 1")) == ["b", "a", "c"]


@pytest.mark.parametrize(
    ("entry", "law"),
    [
        ("{ normal = [1, 2] }", stats.norm(1, 2)),
        ("{ halfnormal = 2 }", stats.halfnorm(scale=2)),
        ("{ lognormal = [3, 0.5] }", stats.lognorm(0.5, scale=3)),
        ("{ exponential = 2 }", stats.expon(scale=2)),
        ('{ scipy = "gamma", a = 2, scale = 3 }', stats.gamma(2, scale=3)),
    ],
)
def test_priors_are_distributions(entry, law, tmp_path):
    (prior,) = read(tmp_path, f"x = {{ prior = {entry} }}", prior=True).values()
    assert prior.ppf([0.1, 0.7]).tolist() == law.ppf([0.1, 0.7]).tolist()


def test_a_lognormal_has_the_stated_median_and_without_priors_variables_stay(tmp_path):
    space = read(tmp_path, "x = { prior = { lognormal = [3, 0.5] } }\ny = { log = [1, 2] }", prior=True)
    assert space["x"].median() == pytest.approx(3)
    assert space["y"] == ps.Real(1, 2, log=True)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("[1, 2, 4]", "has 3 numbers; write [low, high], or { choice = [1, 2, 4] }"),
        ("[1]", "has 1 numbers"),
        ("[]", "fewer than two entries"),
        ("[5, -5]", "the lower end is above the upper one"),
        ("{ lo = 1, high = 2 }", "there is no key 'lo'; did you mean low?"),
        ("{ low = 1 }", "high is missing beside low"),
        ("{ high = 1 }", "low is missing beside high"),
        ("{ low = 0, high = 1, log = true }", "a logarithm needs ends above zero"),
        ("{ low = 1, high = 2, log = true, integer = true }", "log and integer exclude each other"),
        ("{ low = 1, high = 2, log = 10 }", "log = 10 beside low and high: write log = true, or leave it out"),
        ("{ low = 1, high = 2, fixed = 1 }", "fixed does not go with low and high: leave out either fixed, or"),
        ("{ low = 1, high = 2, choice = [1, 2] }", "leave out either choice, or low and high"),
        ('{ low = "1", high = 2 }', "give two finite ends"),
        ("{ integer = [1, 2, 3] }", "give two ends"),
        ("{ integer = 3 }", "write [low, high]"),
        ("{ integer = true }", "write [low, high]"),
        ("{ log = [1, 2], integer = [1, 2] }", "do not make a variable"),
        ("{}", "it is empty; write [low, high]"),
        ("{ log = true }", "log does not make a variable"),
        ("{ integer = [1.5, 3] }", "integer needs whole ends, which are included, got 1.5 and 3"),
        ("{ low = 1, high = 2.5, integer = true }", "integer needs whole ends"),
        ("{ integer = [nan, 3] }", "give two finite ends"),
        ("[nan, 3]", "give two finite ends"),
        ("{ prior = { normal = [0, 1] } }", "no ends, which a minimum needs: add low and high"),
        ("1979-05-27", "cannot be used"),
        ("nan", "it is fixed at nan, which is not finite"),
        ("{ fixed = inf }", "it is fixed at inf, which is not finite"),
        ("{ choice = [nan, 1] }", "nan cannot be an entry"),
    ],
)
def test_a_mistake_names_file_variable_and_what_to_do(entry, message, tmp_path):
    with pytest.raises(ValueError, match=rf"space\.toml: rate: .*{re.escape(message)}"):
        read(tmp_path, f"rate = {entry}")


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("3", "write for example prior = { normal = [mean, sd] }"),
        ("{ norml = [0, 1] }", "did you mean normal?"),
        ("{ normal = [0] }", "write normal = [mean, sd]"),
        ("{ normal = [0, -1] }", "the last above zero"),
        ("{ normal = [nan, 1] }", "finite"),
        ("{ normal = [0, inf] }", "finite"),
        ('{ scipy = "norm", loc = nan }', "loc = nan is not a finite number"),
        ('{ scipy = "norm", loc = "a" }', "loc = 'a' is not a finite number"),
        ('{ scipy = "gamma", a = -1 }', "gamma is no distribution with a = -1"),
        ("{ normal = [0, 1], exponential = 1 }", "is no distribution"),
        ('{ scipy = "gama" }', "no continuous distribution 'gama'"),
        ('{ scipy = "poisson", mu = 2 }', "no continuous distribution 'poisson'"),
        ('{ scipy = "gamma" }', "gamma takes a, loc and scale, got nothing"),
        ('{ scipy = "norm", skale = 1 }', "norm takes loc and scale, got skale"),
    ],
)
def test_a_mistake_in_a_prior_is_named(entry, message, tmp_path):
    with pytest.raises(ValueError, match=rf"rate: prior.*{re.escape(message)}"):
        read(tmp_path, f"rate = {{ prior = {entry} }}", prior=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no variables"),
        ("rate = [1, 2", "is not valid TOML"),
        ('"my rate" = [0, 1]', "the name 'my rate' is not an identifier: use letters"),
        ("lambda = [0, 1]", "the name 'lambda' is a keyword of Python; write 'lambda_'"),
    ],
)
def test_a_broken_file_is_named(text, message, tmp_path):
    with pytest.raises(ValueError, match=rf"space\.toml.*{message}"):
        read(tmp_path, text)
    with pytest.raises(FileNotFoundError, match=r"nowhere\.toml"):
        ps.read_space(tmp_path / "nowhere.toml")
