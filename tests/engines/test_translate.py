"""Objectives as C: the translated function, compiled by the C compiler of this machine, against JAX."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest
from jax_alone import need_jax

jax = need_jax()
jnp = pytest.importorskip("jax.numpy")
translate = pytest.importorskip("paoswarm.engines.cuda.translate").translate
CannotTranslate = pytest.importorskip("paoswarm.engines.cuda.translate").CannotTranslate

COMPILER = next(filter(shutil.which, ("cc", "gcc", "clang")), None)
ROTATION = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 5)))[0]
HEADER = "#include <math.h>\n#include <tgmath.h>\ntypedef double real;\n#define FUNCTION\n"


def levy(x):
    w = 1 + (x - 1) / 4
    middle = ((w[:-1] - 1) ** 2 * (1 + 10 * jnp.sin(jnp.pi * w[:-1] + 1) ** 2)).sum()
    return jnp.sin(jnp.pi * w[0]) ** 2 + middle + (w[-1] - 1) ** 2 * (1 + jnp.sin(2 * jnp.pi * w[-1]) ** 2)


def oscillator(x):
    """The sum of squares of a damped oscillator's path, by explicit steps."""

    def step(carry, force):
        place, speed = carry
        speed = speed + 0.1 * (force - x[0] * place - x[1] * speed - x[2] * jnp.sin(place))
        place = place + 0.1 * speed
        return (place, speed), place

    (place, _), path = jax.lax.scan(step, (x[3], x[4]), jnp.linspace(0, 1, 12))
    return (path**2).sum() + jnp.abs(place)


OBJECTIVES = {
    "rastrigin": lambda x: jnp.sum(x * x - 10 * jnp.cos(2 * jnp.pi * x) + 10),
    "rosenbrock": lambda x: jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
    "ackley": lambda x: -20 * jnp.exp(-0.2 * jnp.sqrt(jnp.mean(x * x))) - jnp.exp(jnp.mean(jnp.cos(6 * x))) + 20,
    "rotated": lambda x: jnp.sum(10.0 ** jnp.arange(5) * (jnp.asarray(ROTATION) @ x) ** 2),
    "griewank": lambda x: 1 + jnp.sum(x * x) / 4000 - jnp.prod(jnp.cos(x / jnp.sqrt(jnp.arange(1, 6)))),
    "levy": levy,
    "oscillator": oscillator,
    "pieces": lambda x: jnp.where(x[0] > 0, jnp.max(jnp.abs(x)), jnp.min(jnp.clip(x, -1, 1))) + jnp.linalg.norm(x),
    "powers": lambda x: x[0] ** 3 + 1 / (1 + x[1] ** 4) + jnp.abs(x[2]) ** 1.5 + x[3] ** -2 + jnp.hypot(x[3], x[4]),
    "logic": lambda x: jnp.where((x[0] > 0) & ~(x[1] > 0) | (x[2] < -1), x[3], jnp.floor(x[4])) + jnp.sign(x[0]),
    "cumulative": lambda x: (jnp.cumsum(x)[::-1] * jnp.cumprod(x)).sum() + jnp.pad(x, (1, 2)).mean(),
    "matrices": lambda x: (jnp.outer(x, x) @ jnp.eye(5) * jnp.tril(jnp.ones((5, 5)))).sum(),
    "statistics": lambda x: jnp.std(x) + jax.nn.sigmoid(x).sum() + jnp.log1p(x**2).sum() + jax.nn.softplus(x[0]),
}


@pytest.mark.skipif(COMPILER is None, reason="no C compiler")
def test_translated_objectives_have_the_values_of_jax(tmp_path):
    """All in one library and in one compilation of JAX, because starting the compilers takes longest."""
    parts = [translate(fun, 5).replace("objective", f"f{i}") for i, fun in enumerate(OBJECTIVES.values())]
    source, library = tmp_path / "f.c", tmp_path / "f.so"
    source.write_text(HEADER + "".join(parts))
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
    loaded = ctypes.CDLL(library)
    points = np.random.default_rng(1).uniform(-3, 3, (20, 5))
    with jax.enable_x64(True):
        everything = jax.jit(lambda x: {name: jax.vmap(fun)(x) for name, fun in OBJECTIVES.items()})
        theirs = everything(jnp.asarray(points))
    for i, name in enumerate(OBJECTIVES):
        found = loaded[f"f{i}"]
        found.restype, found.argtypes = ctypes.c_double, [ctypes.c_void_p]
        ours = [found(x.ctypes.data) for x in points]
        np.testing.assert_allclose(ours, np.asarray(theirs[name]), rtol=1e-11, atol=1e-13, err_msg=name)


def test_what_is_computed_twice_is_written_once():
    text = translate(lambda x: jnp.sin(x[0]) + jnp.sin(x[0]) ** 2, 2)
    assert text.count("sin(") == 1


@pytest.mark.parametrize(
    ("fun", "operation"),
    [
        (lambda x: jnp.sort(x)[0], "sort"),
        (lambda x: x[jnp.argmax(x)], "argmax"),
        (lambda x: jax.lax.while_loop(lambda y: y < 1, lambda y: y + 1, x[0]), "while"),
        (lambda x: jax.lax.fori_loop(0, 1000, lambda i, y: y + x[0], 0.0), "loop of 1000 steps"),
        (lambda x: x, "one number"),
    ],
)
def test_what_cannot_be_translated_is_named(fun, operation):
    with pytest.raises(CannotTranslate, match=operation):
        translate(fun, 3)
