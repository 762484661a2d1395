"""What a model returns as one vector: arrays and dicts, missing data, and errors that say what is wrong."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from paoswarm.least_squares.outputs import Outputs, as_residuals

NAN = np.nan
MATRIX = np.array([[1.0, 2.0], [NAN, 4.0], [5.0, 6.0]])


def test_an_array_keeps_what_the_model_returns_where_there_is_no_datum():
    outputs = Outputs.of(MATRIX)
    assert_array_equal(outputs.data, [1, 2, NAN, 4, 5, 6])
    answer = np.arange(6.0).reshape(3, 2)
    vector = outputs.vector(answer)
    assert_array_equal(vector, np.arange(6.0))
    assert_array_equal(outputs.split(vector), answer)
    assert_array_equal(outputs.split(np.stack([vector, -vector]))[1], -answer)
    assert not outputs.is_dict


def test_a_dict_of_arrays():
    outputs = Outputs.of({"a": MATRIX, "b": 7, "c": [[1, NAN, 3]]})
    assert_array_equal(outputs.data, [1, 2, NAN, 4, 5, 6, 7, 1, NAN, 3])
    answer = {"more": "ignored", "c": np.array([[1, 2, 3]]), "b": 8.0, "a": np.ones((3, 2))}
    vector = outputs.vector(answer)
    assert_array_equal(vector, [1, 1, 1, 1, 1, 1, 8, 1, 2, 3])
    there = outputs.split(vector)
    assert list(there) == ["a", "b", "c"]
    assert there["b"].shape == ()
    assert_array_equal(there["c"], [[1, 2, 3]])
    assert [part.label for part in outputs.parts] == ["output 'a'", "output 'b'", "output 'c'"]


def test_one_number():
    outputs = Outputs.of(3.0)
    assert_array_equal(outputs.vector(4), [4])
    assert outputs.split(np.array([4.0])) == 4
    assert_array_equal(outputs.split(np.array([[4.0], [5.0]])), [4, 5])


def test_columns_are_series_along_the_first_axis():
    outputs = Outputs.of({"a": MATRIX, "b": [1.0, NAN, 3.0], "c": 4.0})
    numbers = [column.tolist() for part in outputs.parts for column in part.columns]
    assert numbers == [[0, 2, 4], [1, 3, 5], [6, 7, 8], [9]]
    assert_array_equal(outputs.data[outputs.parts[0].columns[1]], MATRIX[:, 1])


@pytest.mark.parametrize(
    "form",
    [
        list,
        tuple,
        np.asarray,
        lambda v: np.asarray(v)[:, None],
        lambda v: np.asarray(v)[None],
        lambda v: np.ma.array(v),
    ],
)
def test_forms_of_one_curve(form):
    assert_array_equal(Outputs.of([4.0, 5.0, 6.0]).vector(form([1, 2, 3])), [1, 2, 3])
    assert_array_equal(Outputs.of(form([4, 5, 6])).data, [4, 5, 6])


def test_masked_data_are_missing():
    outputs = Outputs.of(np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False]))
    assert_array_equal(outputs.data, [1, NAN, 3])


def test_series_of_pandas_and_arrays_of_xarray():
    pandas, xarray = pytest.importorskip("pandas"), pytest.importorskip("xarray")
    series = pandas.Series([1.0, NAN, 3.0], index=[10, 20, 30])
    assert_array_equal(Outputs.of(series).data, [1, NAN, 3])
    assert_array_equal(Outputs.of(series).vector(pandas.Series([4, 5, 6])), [4, 5, 6])
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    assert_array_equal(Outputs.of(frame).vector(xarray.DataArray([[1, 2], [3, 4]])), [1, 2, 3, 4])
    both = Outputs.of({"a": frame["a"], "b": xarray.DataArray([5.0])})
    assert_array_equal(both.vector({"a": [1, 2], "b": 3.0}), [1, 2, 3])


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        ({}, ValueError, "empty dict"),
        ([NAN, NAN], ValueError, "data holds no datum that is not NaN"),
        ({"a": [1.0], "b": [NAN]}, ValueError, r"data\['b'\] holds no datum"),
        ([], ValueError, "holds no datum"),
        ([1.0, np.inf], ValueError, "write NaN for a missing datum"),
        (["a"], TypeError, "data must be real numbers"),
        ([1j], TypeError, "data must be real numbers"),
        ({"a": None}, TypeError, r"data\['a'\] must be real numbers, got None"),
        ({1: [1.0]}, TypeError, "names of outputs must be text, got 1"),
        ([[1.0], [1.0, 2.0]], TypeError, "data must be real numbers"),
        (lambda x: x, TypeError, "data must be real numbers"),
    ],
)
def test_wrong_data(data, error, said):
    with pytest.raises(error, match=said):
        Outputs.of(data)


@pytest.mark.parametrize(
    ("data", "answer", "said"),
    [
        ([1.0, 2.0], [1.0, 2.0, 3.0], r"the model has shape \(3,\), but its data have shape \(2,\)"),
        ([1.0, 2.0], 1.0, r"shape \(\)"),
        (np.ones((2, 3)), np.ones((3, 2)), r"shape \(3, 2\), but its data have shape \(2, 3\)"),
        ([1.0, 2.0], {"a": [1.0, 2.0]}, r"returned a dict with \['a'\]; give data as a dict"),
        ([1.0, 2.0], None, "the model must be real numbers, got None"),
        ([1.0, 2.0], ["x", "y"], "a list of 2 entries"),
        ([1.0, 2.0], np.array([1j, 2]), "must be real numbers"),
        ([1.0, 2.0], ["1", "2"], "must be real numbers"),
        ({"a": [1.0]}, [1.0], "must return a dict with a, as data is one, but returned a list of 1 entries"),
        ({"a": [1.0], "b": [1.0]}, {"a": [1.0]}, r"no 'b', for which there are data; it returned \['a'\]"),
        ({"a": [1.0, 2.0]}, {"a": [1.0]}, r"output 'a' has shape \(1,\)"),
    ],
)
def test_wrong_answers(data, answer, said):
    with pytest.raises(TypeError, match=said):
        Outputs.of(data).vector(answer)


def test_numbers_for_each_datum():
    part = Outputs.of({"a": MATRIX}).parts[0]
    assert_array_equal(part.spread("sigma", 2), np.full(6, 2.0))
    assert_array_equal(part.spread("sigma", MATRIX), MATRIX.ravel())
    with pytest.raises(
        ValueError, match=r"sigma of output 'a' has shape \(3,\); give one number, or as many as the data"
    ):
        part.spread("sigma", [1, 2, 3])


def test_residuals():
    assert_array_equal(as_residuals([[1, 2], [3, 4]]), [1, 2, 3, 4])
    assert_array_equal(as_residuals({"a": [1.0], "b": 2}), [1, 2])
    assert_array_equal(as_residuals(np.array([1 + 2j, 3 - 4j])), [1, 3, 2, -4])
    for wrong in (None, [], "a", [None]):
        with pytest.raises(TypeError, match="residuals must be real numbers"):
            as_residuals(wrong)
