"""Studies from TOML files: what is written is what is run, and every mistake is named by its key."""

import dataclasses
import tomllib

import pytest

import paoswarm as ps
from paoswarm.core import attractors, noise
from paoswarm.methods import registry
from paoswarm.study.adapters import CMAES, Freelunch, SciPyDE
from paoswarm.study.presets import KINDS, ConfigurationError, method_named, read_study, study_from

linear, geometric, piecewise = ps.schedules.linear, ps.schedules.geometric, ps.schedules.piecewise


def method_of(toml, name="it"):
    """The method that a table describes."""
    return study_from({"problems": ["sphere"], "methods": {name: tomllib.loads(toml)}}).methods[name]


def assert_refused(given, text):
    with pytest.raises(ConfigurationError, match=text):
        study_from({"problems": ["sphere"], "methods": {"PAO": {}}, **given})


def assert_method_refused(toml, text, name="it"):
    with pytest.raises(ConfigurationError, match=text):
        method_of(toml, name)


# What is written is what is run


@pytest.mark.parametrize(
    ("toml", "method"),
    [
        ('kind = "PAO"', ps.PAO()),
        ('kind = "PAO"\nmass = 1.25\ndamping = 0.25\nnoise = 1.5\ndt = 0.9\nwalls = "reflect"', None),
        ('kind = "PAO"\nstiffness = [0.5, 1.5]', ps.PAO(stiffness=(0.5, 1.5))),
        ('kind = "PAO"\nstiffness = 1.0', ps.PAO(stiffness=1.0)),
        ('kind = "PAO"\nmass = 1', ps.PAO(mass=1)),
        ('kind = "PAO"\ndt = { linear = [2.0, 0.5] }', ps.PAO(dt=linear(2.0, 0.5))),
        ('kind = "PAO"\ndt = { geometric = [2, 0.5] }', ps.PAO(dt=geometric(2, 0.5))),
        (
            'kind = "PAO"\nnoise = { piecewise = [[0.0, 1.0], [0.5, 0.8], [1.0, 0.7]] }',
            ps.PAO(noise=piecewise((0.0, 1.0), (0.5, 0.8), (1.0, 0.7))),
        ),
        ('kind = "PAO"\nnoise_scale = "covariance"', ps.PAO(noise_scale=noise.covariance)),
        ('kind = "PAO"\nnoise_scale = "mean_to_best"', ps.PAO(noise_scale=noise.mean_to_best)),
        ('kind = "PAO"\nnoise_scale = "spread"', ps.PAO(noise_scale=noise.spread)),
        (
            'kind = "PAO"\nattractors = ["global_best", "average_local_best"]\nstiffness = [1.5, 0.5]',
            ps.PAO(attractors=(attractors.global_best, attractors.average_local_best), stiffness=(1.5, 0.5)),
        ),
        (
            'kind = "PAO"\nstiffness = 0.6\n'
            'attractors = ["average_particle", "weighted_average_particle", "local_best"]',
            ps.PAO(
                attractors=(
                    attractors.average_particle,
                    attractors.weighted_average_particle,
                    attractors.local_best,
                ),
                stiffness=0.6,
            ),
        ),
        ('kind = "PAO"\npreset = "paper"', ps.PAO.paper()),
        ('kind = "PSO"', ps.classic.PSO()),
        (
            'kind = "PSO"\ninertia = { linear = [0.9, 0.4] }\nsocial = 1.2',
            ps.classic.PSO(inertia=linear(0.9, 0.4), social=1.2),
        ),
        ('kind = "PSO"\npreset = "paper"', ps.classic.PSO.paper()),
        ('kind = "QPSO"', ps.classic.QPSO()),
        ('kind = "QPSO"\ncontraction = 0.75', ps.classic.QPSO(contraction=0.75)),
        ('kind = "QPSO"\npreset = "paper"', ps.classic.QPSO.paper()),
        ('kind = "DE"\nfactor = 0.7\nstrategy = "best/1"', ps.classic.DE(factor=0.7, strategy="best/1")),
        ('kind = "DE"\npreset = "paper"', ps.classic.DE.paper()),
        ('kind = "SADE"', ps.classic.SADE()),
        ('kind = "SADE"\npreset = "paper"', ps.classic.SADE.paper()),
        ('kind = "SciPyDE"\nstrategy = "rand1bin"\nrecombination = 0.9', SciPyDE("rand1bin", 0.9)),
        ('kind = "CMAES"\nsigma = 0.1', CMAES(0.1)),
        ('kind = "Freelunch"\noptimiser = "SADE"', Freelunch("SADE")),
    ],
)
def test_a_table_is_its_method(toml, method):
    if method is None:
        method = ps.PAO(mass=1.25, damping=0.25, noise=1.5, dt=0.9, walls="reflect")
    got = method_of(toml)
    assert type(got) is type(method)
    assert got == method


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_without_kind_is_the_method_it_is_named_after(kind):
    assert method_of("", name=kind) == KINDS[kind]()
    assert method_named(kind) == KINDS[kind]()


@pytest.mark.parametrize("kind", KINDS)
def test_every_hyperparameter_can_be_given(kind):
    """Numbers and texts as they are printed; functions and schedules are written above."""
    default = KINDS[kind]()
    fields = [field.name for field in dataclasses.fields(default) if field.init]
    plain = {name: getattr(default, name) for name in fields if isinstance(getattr(default, name), int | float | str)}
    assert study_from({"problems": ["sphere"], "methods": {kind: plain}}).methods[kind] == default


def test_presets_have_a_short_name():
    assert method_named("PSO:paper") == ps.classic.PSO.paper()
    with pytest.raises(ConfigurationError, match=r"methods\.DE:best\.preset: .*got 'best' of DE"):
        method_named("DE:best")
    with pytest.raises(ConfigurationError, match=r"'QPS0'.*did you mean QPSO\?.* PSO, QPSO"):
        method_named("QPS0")


def test_the_registry_makes_every_method_and_suggests_a_name():
    assert [registry.method_named(name) for name in registry.METHODS] == [
        ps.PAO(),
        ps.classic.PSO(),
        ps.classic.QPSO(),
        ps.classic.DE(),
        ps.classic.SADE(),
        ps.classic.RandomSearch(),
        ps.AdaptivePAO(),
        ps.DensePAO(),
        ps.ElementPAO(),
        ps.MixedPAO(),
    ]
    with pytest.raises(ValueError, match=r"'qpzo'; did you mean QPSO\?.* RandomSearch"):
        registry.method_named("qpzo")


EVERYTHING = """
title = "Two swarms"
problems = ["sphere", "rastrigin-shifted7-rotated2"]
dims = [2, 4]
runs = 3
population = 12
generations = 7
seed = 5
init = "Sobol"
reference = "slow PAO"

[methods.PAO]

[methods."slow PAO"]
kind = "PAO"
dt = { linear = [2.0, 0.5] }

[methods."SciPy DE"]
kind = "SciPyDE"

[groups]
"Ours" = ["PAO", "slow PAO"]
"All" = ["PAO", "slow PAO", "SciPy DE"]
"""


def test_a_file_is_its_study(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(EVERYTHING)
    assert read_study(path) == ps.study.Study(
        title="Two swarms",
        problems=["sphere", "rastrigin-shifted7-rotated2"],
        methods={"PAO": ps.PAO(), "slow PAO": ps.PAO(dt=linear(2.0, 0.5)), "SciPy DE": SciPyDE()},
        dims=[2, 4],
        runs=3,
        population=12,
        generations=7,
        seed=5,
        init="sobol",
        reference="slow PAO",
        groups={"Ours": ("PAO", "slow PAO"), "All": ("PAO", "slow PAO", "SciPy DE")},
    )


def test_defaults_are_those_of_a_study():
    got = study_from({"problems": ["sphere"], "methods": {"PAO": {}}})
    assert got == ps.study.Study(problems=["sphere"], methods={"PAO": ps.PAO()})
    got = study_from({"problems": ["sphere"], "methods": {"PAO": {}}, "evaluations_per_unknown": 70})
    assert got.budget(8) == 560


def test_the_example_in_the_documentation_works(tmp_path):
    from paoswarm.study import presets as config

    text = config.__doc__.partition(".. code-block:: toml\n")[2].partition("\nWithout ")[0]
    path = tmp_path / "example.toml"
    path.write_text("\n".join(line.removeprefix("    ") for line in text.splitlines()))
    assert list(read_study(path).methods) == ["PAO", "damped PAO", "PSO", "SciPy DE"]


# Every mistake is named by its key


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"generation": 5}, r"generation: no such key.*did you mean generations\?"),
        ({"colour": "red"}, "colour: no such key.* problems, methods, dims, runs"),
        ({"_names": []}, "_names: no such key"),
        ({"runs": "ten"}, "runs must be .* got 'ten'"),
        ({"runs": 2.5}, "runs must be .* got 2.5"),
        ({"population": True}, "population must be .* got True"),
        ({"generations": [100]}, r"generations must be .* got \[100\]"),
        ({"seed": "x"}, "seed must be .* got 'x'"),
        ({"evaluations_per_unknown": 0}, "evaluations_per_unknown must be .* got 0"),
        ({"evaluations_per_unknown": 10}, "evaluations_per_unknown = 10 .*population of 100"),
        ({"dims": 2}, "dims must be a list"),
        ({"dims": [2.5]}, "dims must be .* got 2.5"),
        ({"dims": []}, "dims must be a list"),
        ({"problems": "sphere"}, "problems must be a list"),
        ({"problems": []}, "problems must be a list"),
        ({"problems": ["sfere"]}, "'sfere'.*did you mean sphere"),
        ({"problems": ["sphere", "sphere"]}, "problems has an entry twice"),
        ({"problems": [3]}, "problems"),
        ({"methods": {}}, "methods"),
        ({"methods": ["PAO"]}, r"methods: .*\[methods.NAME\].* got \['PAO'\]"),
        ({"methods": {"PAO": "fast"}}, "methods.PAO: must be a table of hyperparameters, got 'fast'"),
        ({"reference": "PSO"}, r"reference must be one of the methods \['PAO'\], got 'PSO'"),
        ({"reference": ["PAO"]}, "reference"),
        ({"groups": {"Ours": ["PSO"]}}, "groups: 'Ours': 'PSO' is not among the methods"),
        ({"groups": ["PAO"]}, "groups"),
        ({"groups": 5}, "groups"),
        ({"groups": {"Ours": 5}}, "groups"),
        ({"init": "grid"}, "init must be"),
        ({"init": 5}, "init"),
    ],
)
def test_the_error_names_the_wrong_key_of_a_study(given, text):
    assert_refused(given, text)


@pytest.mark.parametrize(
    ("toml", "text"),
    [
        (
            'kind = "POA"',
            r"methods\.it: unknown method 'POA'.* PAO, AdaptivePAO, .* PSO, QPSO, DE, SADE, RandomSearch, .* CMAES",
        ),
        ('kind = "SciPiDE"', r"'SciPiDE'.*did you mean SciPyDE\?"),
        ("", "methods.it: unknown method 'it'"),
        ("kind = 5", "methods.it: unknown method 5"),
        ('kind = ["PAO"]', "methods.it"),
        ('kind = "PAO"\nmas = 1.0', r"methods\.it\.mas: PAO .*did you mean mass\?"),
        ('kind = "PSO"\nmass = 1.0', r"methods\.it\.mass: PSO .* from inertia"),
        ('kind = "PAO"\nmass = "heavy"', "methods.it: mass must be a number.*got 'heavy'"),
        ('kind = "PAO"\nmass = true', "methods.it: mass must be .*got True"),
        ('kind = "PAO"\nmass = -1.0', "methods.it: mass must be .*-1"),
        ('kind = "DE"\nfactor = 3.0', "methods.it: factor must .*3.0"),
        ('kind = "DE"\nstrategy = "worst/1"', "methods.it: strategy must be one of .*got 'worst/1'"),
        ('kind = "DE"\nwalls = 5', "methods.it: walls must be one of .*got 5"),
        ('kind = "PAO"\nstiffness = [1.0]', "methods.it: stiffness needs one entry per attractor"),
        ('kind = "PAO"\ndt = { linear = [2.0] }', r"methods\.it\.dt: linear = \[2.0\]"),
        ('kind = "PAO"\ndt = { linear = 5 }', r"methods\.it\.dt: linear = 5"),
        ('kind = "PAO"\ndt = { linear = ["a", "b"] }', r"methods\.it\.dt: linear = \['a', 'b'\]"),
        ('kind = "PAO"\ndt = { geometric = [1.0, 0.0] }', r"methods\.it\.dt: geometric = \[1.0, 0.0\]: .*positive"),
        ('kind = "PAO"\ndt = { piecewise = [1.0, 2.0] }', r"methods\.it\.dt: piecewise = \[1.0, 2.0\]"),
        ('kind = "PAO"\ndt = { piecewise = [[1, 2], [0, 1]] }', r"methods\.it\.dt: piecewise = .*ascending order"),
        ('kind = "PAO"\ndt = { cubic = [1, 2] }', r"methods\.it\.dt: .*schedule.*got \{'cubic': \[1, 2\]\}"),
        ('kind = "PAO"\ndt = {}', r"methods\.it\.dt: .*schedule.*got \{\}"),
        ('kind = "PAO"\ndt = { linear = [1, 2], geometric = [1, 2] }', r"methods\.it\.dt: .*schedule"),
        ('kind = "PAO"\nattractors = ["best"]', r"methods\.it\.attractors: unknown 'best'.* local_best"),
        ('kind = "PAO"\nattractors = "local_best"', r"methods\.it\.attractors: .*'local_best'"),
        ('kind = "PAO"\nattractors = 5', r"methods\.it\.attractors"),
        ('kind = "PAO"\nattractors = []', r"methods\.it: attractors is empty"),
        (
            'kind = "PAO"\nnoise_scale = "covarience"',
            r"methods\.it\.noise_scale: unknown 'covarience'.*did you mean covariance\?",
        ),
        ('kind = "PAO"\npreset = "best"', r"methods\.it\.preset: .*'paper'.*got 'best' of PAO"),
        ('kind = "PAO"\npreset = "paper"\nmass = 2.0', r"methods\.it\.preset: .*no other keys; got .* with mass"),
        ('kind = "CMAES"\npreset = "paper"', r"methods\.it\.preset: .*got 'paper' of CMAES"),
        ('kind = "CMAES"\nsigma = "wide"', r"methods\.it.*sigma"),
        ('kind = "SciPyDE"\nrecombination = 3.0', r"methods\.it.*recombination"),
    ],
)
def test_the_error_names_the_wrong_key_of_a_method(toml, text):
    assert_method_refused(toml, text)


@pytest.mark.parametrize("key", ["problems", "methods"])
def test_a_missing_key_is_named(key):
    given = {"problems": ["sphere"], "methods": {"PAO": {}}}
    del given[key]
    with pytest.raises(ConfigurationError, match=f"{key}: missing"):
        study_from(given)


def test_too_small_a_population_names_the_method():
    assert_refused({"methods": {"my DE": {"kind": "DE"}}, "population": 3}, "methods: 'my DE' with population = 3")


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"problems = [", "is not valid TOML: "),
        (b"runs = 3\ndims = 2 3\n", r"is not valid TOML: .*line 2"),
        (b"title = '\xff'", "cannot read the configuration"),
        (b"runz = 3", r"runz: .*did you mean runs\?"),
        (b"", "problems: missing"),
    ],
)
def test_a_broken_file_is_named_with_its_fault(content, text, tmp_path):
    path = tmp_path / "broken.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=text) as caught:
        read_study(path)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path):
    for path in (tmp_path / "nowhere.toml", tmp_path):
        with pytest.raises(ConfigurationError, match=f"cannot read the configuration {path}: "):
            read_study(path)
