"""A jax-traceable objective as straight-line C, which CUDA compiles into its kernels.

Every array of the traced function becomes an array of names of C variables. Slicing, broadcasting, transposing and
small matrix products then happen here, while the text is written: the thread that owns a particle only does arithmetic
in registers. The same text compiles as C, so that it is tested without a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

_MOST_LINES = 20_000
_MOST_STEPS = 200  # of a loop that is written out

_UNARY = {
    **{name: f"{name}({{0}})" for name in ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")},
    **{name: f"{name}({{0}})" for name in ("asinh", "acosh", "atanh", "exp", "exp2", "expm1", "log", "log1p", "sqrt")},
    **{name: f"{name}({{0}})" for name in ("cbrt", "floor", "ceil", "erf", "erfc", "lgamma")},
    "abs": "fabs({0})",
    "neg": "(-{0})",
    "not": "(!{0})",
    "square": "({0} * {0})",
    "rsqrt": "((real)1 / sqrt({0}))",
    "logistic": "((real)1 / ((real)1 + exp(-{0})))",
    "sign": "((real)(({0} > 0) - ({0} < 0)))",
    "is_finite": "(fabs({0}) < (real)INFINITY)",
    **dict.fromkeys(("copy", "copy_p", "stop_gradient", "optimization_barrier", "real"), "{0}"),
}
_BINARY = {
    "add": "({0} + {1})",
    "add_any": "({0} + {1})",
    "sub": "({0} - {1})",
    "mul": "({0} * {1})",
    "div": "({0} / {1})",
    "max": "fmax({0}, {1})",
    "min": "fmin({0}, {1})",
    "pow": "pow({0}, {1})",
    "rem": "fmod({0}, {1})",
    "atan2": "atan2({0}, {1})",
    "lt": "({0} < {1})",
    "le": "({0} <= {1})",
    "gt": "({0} > {1})",
    "ge": "({0} >= {1})",
    "eq": "({0} == {1})",
    "ne": "({0} != {1})",
    "and": "({0} && {1})",
    "or": "({0} || {1})",
    "xor": "({0} != {1})",
}
_REDUCE = {
    "reduce_sum": "add",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "mul",
    "reduce_and": "and",
    "reduce_or": "or",
}
_RUNNING = {"cumsum": "add", "cumprod": "mul", "cummax": "max", "cummin": "min"}
_ONLY_BOOLEAN = ("and", "or", "xor", "not")

Names = np.ndarray[Any, np.dtype[np.object_]]


class CannotTranslate(Exception):
    """An objective that has no straight-line C; the text says which operation is in the way."""


def translate(fun: Callable[..., Any], n_dimensions: int) -> str:
    """Return the C function ``real objective(const real *x)`` of an objective; the includer defines ``real``."""
    with jax.enable_x64(True):  # constants keep all their digits
        traced = jax.make_jaxpr(fun)(jax.ShapeDtypeStruct((n_dimensions,), np.float64))
    if len(traced.out_avals) != 1 or traced.out_avals[0].shape != ():
        raise CannotTranslate("it does not return one number")
    writer = _Writer()
    x = np.array([f"x[{j}]" for j in range(n_dimensions)], dtype=object)
    (result,) = writer.run(traced.jaxpr, traced.consts, [x])
    body = "\n".join(writer.lines)
    return f"FUNCTION real objective(const real *x) {{\n{body}\n  return {result[()]};\n}}\n"


class _Writer:
    """Writes one line of C for every number that a traced function computes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[str, str] = {}  # what was computed before is not computed again

    def run(self, jaxpr: Any, constants: Any, arguments: list[Names]) -> list[Names]:
        """Write the equations of a traced function and return the names of its results."""
        names: dict[Any, Names] = dict(zip(jaxpr.constvars, map(_literals, constants), strict=True))
        names |= dict(zip(jaxpr.invars, arguments, strict=True))

        def read(variable: Any) -> Names:
            return _literals(variable.val) if hasattr(variable, "val") else names[variable]

        for equation in jaxpr.eqns:
            results = self._write(equation, [read(variable) for variable in equation.invars])
            names |= dict(zip(equation.outvars, results, strict=True))
        return [read(variable) for variable in jaxpr.outvars]

    def _write(self, equation: Any, inputs: list[Names]) -> list[Names]:
        name, parameters = equation.primitive.name, equation.params
        inner = next((parameters[key] for key in ("jaxpr", "call_jaxpr", "fun_jaxpr") if key in parameters), None)
        if name == "scan":
            return self._unrolled(parameters, inputs)
        if inner is not None and name not in ("while", "cond", "custom_vmap_call"):
            return self.run(getattr(inner, "jaxpr", inner), getattr(inner, "consts", ()), inputs)
        if name in _ONLY_BOOLEAN and equation.invars[0].aval.dtype != bool:
            raise CannotTranslate(f"it uses the operation {name} on whole numbers")
        shape = equation.outvars[0].aval.shape
        return [np.asarray(self._result(name, parameters, inputs, shape), dtype=object).reshape(shape)]

    def _result(self, name: str, parameters: Any, inputs: list[Names], shape: tuple[int, ...]) -> Names:
        first = inputs[0] if inputs else np.empty(0, dtype=object)
        if name in _UNARY:
            return self._each(_UNARY[name], first)
        if name in _BINARY:
            return self._each(_BINARY[name], *inputs)
        if name in _REDUCE:
            return self._reduced(_BINARY[_REDUCE[name]], first, parameters["axes"])
        if name in _RUNNING:
            return self._running(_BINARY[_RUNNING[name]], first, parameters["axis"], parameters["reverse"])
        return self._arranged(name, parameters, inputs, shape)

    def _arranged(self, name: str, parameters: Any, inputs: list[Names], shape: tuple[int, ...]) -> Names:
        """Operations with rules of their own."""
        first = inputs[0] if inputs else np.empty(0, dtype=object)
        match name:
            case "integer_pow":
                return self._power(first, parameters["y"])
            case "select_n" if len(inputs) == 3:
                return self._each("({0} ? {2} : {1})", *inputs)
            case "clamp":
                return self._each("fmin(fmax({1}, {0}), {2})", *inputs)
            case "round":
                return self._each("rint({0})" if int(parameters["rounding_method"]) else "round({0})", first)
            case "convert_element_type":
                is_whole = np.issubdtype(parameters["new_dtype"], np.integer)
                return self._each("trunc({0})" if is_whole else "{0}", first)
            case "concatenate":
                return np.concatenate(inputs, axis=parameters["dimension"])
            case "pad":
                return _padded(first, inputs[1], parameters["padding_config"], shape)
            case "iota":
                length = np.arange(shape[parameters["dimension"]])
                sizes = np.ones(len(shape), dtype=int)
                sizes[parameters["dimension"]] = -1
                return _literals(np.broadcast_to(length.reshape(tuple(sizes)), shape))
            case "dot_general":
                return self._product(inputs[0], inputs[1], parameters["dimension_numbers"])
        return _reshaped(name, parameters, first, shape)

    def _each(self, form: str, *inputs: Names) -> Names:
        """One line for each element."""
        arrays = np.broadcast_arrays(*inputs)
        found = np.empty(arrays[0].shape, dtype=object)
        for where in np.ndindex(found.shape):
            found[where] = self._line(form.format(*(array[where] for array in arrays)))
        return found

    def _line(self, expression: str) -> str:
        if expression not in self._known:
            if len(self.lines) >= _MOST_LINES:
                raise CannotTranslate(f"it needs more than {_MOST_LINES} operations")
            name = f"t{len(self.lines)}"
            self.lines.append(f"  const real {name} = {expression};")
            self._known[expression] = name
        return self._known[expression]

    def _reduced(self, form: str, array: Names, axes: tuple[int, ...]) -> Names:
        """Pairs, pairs of pairs and so on: shorter chains, and smaller rounding errors, than one after another."""
        rest = [axis for axis in range(array.ndim) if axis not in axes]
        rows = array.transpose(*axes, *rest).reshape(-1, *(array.shape[axis] for axis in rest))
        parts = list(rows)
        while len(parts) > 1:
            even = len(parts) // 2 * 2
            pairs = zip(parts[:even:2], parts[1:even:2], strict=True)
            parts = [self._each(form, np.asarray(a, object), np.asarray(b, object)) for a, b in pairs] + parts[even:]
        return np.asarray(parts[0], dtype=object)

    def _running(self, form: str, array: Names, axis: int, reverse: bool) -> Names:
        rows = np.moveaxis(array, axis, 0)
        rows = rows[::-1] if reverse else rows
        found = [rows[0]]
        for row in rows[1:]:
            found.append(self._each(form, np.asarray(found[-1], object), np.asarray(row, object)))
        stacked = np.stack([np.asarray(row, dtype=object) for row in found])
        return np.moveaxis(stacked[::-1] if reverse else stacked, 0, axis)

    def _power(self, array: Names, exponent: int) -> Names:
        """Repeated squaring."""
        result: Names | None = None
        square, left = array, abs(exponent)
        while left:
            if left & 1:
                result = square if result is None else self._each("({0} * {1})", result, square)
            left >>= 1
            square = self._each("({0} * {0})", square) if left else square
        if result is None:
            return _literals(np.ones(array.shape))
        return self._each("((real)1 / {0})", result) if exponent < 0 else result

    def _product(self, a: Names, b: Names, dimensions: Any) -> Names:
        (along_a, along_b), (batch_a, batch_b) = dimensions
        if batch_a or batch_b:
            raise CannotTranslate("it uses a batched matrix product")
        rest_a = [axis for axis in range(a.ndim) if axis not in along_a]
        rest_b = [axis for axis in range(b.ndim) if axis not in along_b]
        length = int(np.prod([a.shape[axis] for axis in along_a], dtype=int))
        rows = a.transpose(*rest_a, *along_a).reshape(-1, length)
        columns = b.transpose(*rest_b, *along_b).reshape(-1, length)
        products = self._each("({0} * {1})", rows[:, None, :], columns[None, :, :])
        sums = self._reduced(_BINARY["add"], products, (2,))
        return sums.reshape([a.shape[axis] for axis in rest_a] + [b.shape[axis] for axis in rest_b])

    def _unrolled(self, parameters: Any, inputs: list[Names]) -> list[Names]:
        """A loop with a known number of steps, written out."""
        length, n_constants, n_carry = parameters["length"], parameters["num_consts"], parameters["num_carry"]
        if length > _MOST_STEPS:
            raise CannotTranslate(f"it has a loop of {length} steps; at most {_MOST_STEPS} are written out")
        constants, carry = inputs[:n_constants], inputs[n_constants : n_constants + n_carry]
        rows = inputs[n_constants + n_carry :]
        inner = parameters["jaxpr"]
        collected: list[list[Names]] = []
        for step in reversed(range(length)) if parameters["reverse"] else range(length):
            at = [np.asarray(row[step], dtype=object) for row in rows]
            results = self.run(inner.jaxpr, inner.consts, [*constants, *carry, *at])
            carry = results[:n_carry]
            collected.append(results[n_carry:])
        if parameters["reverse"]:
            collected.reverse()
        stacked = [
            np.stack([np.asarray(one, dtype=object) for one in column]) for column in zip(*collected, strict=True)
        ]
        return [*carry, *stacked]


def _reshaped(name: str, parameters: Any, given: Names, shape: tuple[int, ...]) -> Names:
    """Operations that only arrange names."""
    match name:
        case "broadcast_in_dim":
            sizes = np.ones(len(shape), dtype=int)
            sizes[list(parameters["broadcast_dimensions"])] = given.shape
            return np.broadcast_to(given.reshape(tuple(sizes)), shape)
        case "reshape" | "squeeze" | "expand_dims":
            return given.reshape(shape)
        case "transpose":
            return given.transpose(parameters["permutation"])
        case "rev":
            return np.flip(given, parameters["dimensions"])
        case "slice":
            steps = parameters["strides"] or (1,) * given.ndim
            ends = zip(parameters["start_indices"], parameters["limit_indices"], steps, strict=True)
            return given[tuple(slice(*end) for end in ends)]
    raise CannotTranslate(f"it uses the operation {name}")


def _padded(array: Names, filler: Names, config: Any, shape: tuple[int, ...]) -> Names:
    if any(low < 0 or high < 0 for low, high, _ in config):
        raise CannotTranslate("it uses negative padding")
    found = np.full(shape, filler[()], dtype=object)
    where = tuple(
        slice(low, size - high if high else None, inside + 1)
        for (low, high, inside), size in zip(config, shape, strict=True)
    )
    found[where] = array
    return found


def _literals(value: Any) -> Names:
    """Constants as C."""
    array = np.asarray(value)
    found = np.empty(array.shape, dtype=object)
    for where in np.ndindex(array.shape):
        number = float(array[where])
        if np.isnan(number):
            found[where] = "(real)NAN"
        elif np.isinf(number):
            found[where] = "(real)INFINITY" if number > 0 else "(-(real)INFINITY)"
        else:
            found[where] = f"(real){number!r}" if number >= 0 else f"(real)({number!r})"
    return found
