"""Checked values of an HDF5 group, and the sealed file around them."""

import h5py
import numpy as np
import pytest

from eptsim.base.errors import CheckpointError, InputError
from eptsim.base.h5 import Reader, file_path, put_array, reading, writing
from eptsim.base.sealed import is_sealed

DATA = np.arange(6.0).reshape(2, 3)


@pytest.fixture
def group():
    with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        made = file.create_group("g")
        put_array(made, "a", DATA, units="S", axes=("row", "column"), about="numbers")
        made.attrs.update(word="yes", on=True, off=False, count=3, size=2.5, many=[1, 2])
        made.create_group("inner")
        yield made


def test_what_is_written_is_read(group):
    reader = Reader("f.h5", group)
    assert np.array_equal(reader.array("a", (2, 3), "float64", "S"), DATA)
    assert reader.text("word", ("yes", "no")) == "yes"
    assert (reader.flag("on"), reader.flag("off")) == (True, False)
    assert (reader.integer("count"), reader.number("size")) == (3, 2.5)
    assert reader.integers("many") == (1, 2)
    assert reader.names() == ("a", "inner")
    assert reader.sub("inner").names() == ()
    assert [dim.label for dim in group["a"].dims] == ["row", "column"]
    assert group["a"].attrs["long_name"] == "numbers"


def test_a_compressed_array_is_the_same(group):
    data = np.arange(4000, dtype=np.uint8).reshape(40, 100)
    put_array(group, "b", data, units="1", axes=("x", "y"), about="", compress=True)
    assert group["b"].compression == "gzip"
    assert np.array_equal(Reader("f", group).array("b", (40, 100), "uint8", "1"), data)


@pytest.mark.parametrize(
    ("call", "found", "allowed"),
    [
        (lambda r: r.array("none", (1,), "float64", "S"), "g/none: found nothing", "a dataset"),
        (lambda r: r.array("inner", (1,), "float64", "S"), "g/inner: found a group", "a dataset"),
        (lambda r: r.array("a", (3, 2), "float64", "S"), "g/a: found float64 of shape (2, 3)",
         "(3, 2)"),
        (lambda r: r.array("a", (2, 3), "float32", "S"), "found float64", "float32"),
        (lambda r: r.array("a", (2, 3), "float64", "A"), "found units 'S'", "'A'"),
        (lambda r: r.array("a", (2, 3), "float64", "S", above=0.0), "found 0", "more than 0"),
        (lambda r: r.array("a", (2, 3), "float64", "S", least=1.0), "found 0", "1 or more"),
        (lambda r: r.sub("a"), "g/a: found a dataset", "a group"),
        (lambda r: r.sub("none"), "found nothing", "a group"),
        (lambda r: r.text("count"), "g/count: found np.int64(3)", "a text"),
        (lambda r: r.text("none"), "found nothing", "a text"),
        (lambda r: r.text("word", ("no", "never")), "found 'yes'", "no, never"),
        (lambda r: r.flag("count"), "found np.int64(3)", "true or false"),
        (lambda r: r.integer("on"), "found np.True_", "an integer"),
        (lambda r: r.integer("size"), "found np.float64(2.5)", "an integer"),
        (lambda r: r.number("count"), "found np.int64(3)", "a number"),
        (lambda r: r.number("size", above=2.5), "2.5", "more than 2.5"),
        (lambda r: r.number("size", least=3.0), "2.5", "3 or more"),
        (lambda r: r.integers("size"), "2.5", "a list of integers"),
        (lambda r: r.integers("none"), "nothing", "a list of integers"),
    ],
)  # fmt: skip
def test_what_is_not_so_is_refused(group, call, found, allowed):
    with pytest.raises(CheckpointError) as caught:
        call(Reader("f.h5", group))
    message = str(caught.value)
    assert message.startswith("f.h5: /g/") and found in message
    assert allowed in message.partition("allowed: ")[2]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(group, bad):
    group["a"][1, 2] = bad
    with pytest.raises(CheckpointError, match="g/a: found NaN or infinity, allowed: finite"):
        Reader("f", group).array("a", (2, 3), "float64", "S")
    group.attrs["size"] = np.nan
    with pytest.raises(CheckpointError, match="g/size"):
        Reader("f", group).number("size")


def test_a_file_is_sealed_and_says_what_wrote_it(tmp_path):
    path = tmp_path / "new" / "f.h5"
    with writing(path, "form-1", overwrite=False) as file:
        file.attrs["x"] = 1
    assert is_sealed(path)
    with reading(path, "form-1") as root:
        assert root.integer("x") == 1
        assert root.text("h5py_version") == h5py.__version__
    with pytest.raises(CheckpointError, match=r"found 'form-1', allowed: form-2"), reading(
        path, "form-2"
    ):
        pass


def test_errors_of_the_body_pass_through_and_leave_nothing(tmp_path):
    for error in (InputError("mine"), KeyboardInterrupt()):
        with pytest.raises(type(error)), writing(tmp_path / "f", "x", overwrite=False):
            raise error
    with pytest.raises(CheckpointError, match=r"f: cannot be written \(full\)"), writing(
        tmp_path / "f", "x", overwrite=False
    ):
        raise OSError("full")
    assert list(tmp_path.iterdir()) == []


def test_an_error_while_reading_is_not_the_file_s(tmp_path):
    with writing(tmp_path / "f", "x", overwrite=False):
        pass
    with pytest.raises(OSError, match="mine"), reading(tmp_path / "f", "x"):
        raise OSError("mine")


def test_paths():
    assert file_path("a/b").name == "b"
    with pytest.raises(CheckpointError, match="path: found NoneType, allowed: str or Path"):
        file_path(None)
