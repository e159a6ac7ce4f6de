"""Every value that an entry refuses, and the HDF5 tables."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import h5py
import numpy as np
import pytest

from eptsim.base.errors import CardError
from eptsim.base.table import Table
from eptsim.cards import load_card
from eptsim.cards.check import check_value, find_entry, show
from eptsim.cards.schema import SCHEMA

TABLES = [key for key, entry in SCHEMA.items() if entry.table]
NUMBERS = [key for key, entry in SCHEMA.items() if not entry.choices and not entry.table]
INTEGERS = [key for key, entry in SCHEMA.items() if entry.integer]
CHOICES = [key for key, entry in SCHEMA.items() if entry.choices]


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        True,
        False,
        np.bool_(True),
        "1",
        "",
        b"1",
        1j,
        [1.0],
        {},
        np.float64("nan"),
        np.zeros(1),
        -11,
        pytest.param(10**6000, id="huge"),
        pytest.param(-(10**6000), id="-huge"),
    ],
)
def test_numbers_refuse(key: str, value: object) -> None:
    with pytest.raises(CardError, match=f"here: {key}: found .*, allowed: a "):
        check_value(SCHEMA[key], value, "here")


@pytest.mark.parametrize("key", NUMBERS)
def test_numbers_refuse_beyond_the_range(key: str) -> None:
    spec = SCHEMA[key].spec
    with pytest.raises(CardError, match="allowed: a "):
        check_value(SCHEMA[key], spec.high * 1.5, "here")
    if spec.above_low:
        with pytest.raises(CardError, match=r"found 0\.0, allowed: a number in \(0"):
            check_value(SCHEMA[key], 0.0, "here")
    elif spec.low > 0:
        with pytest.raises(CardError, match="found 0"):
            check_value(SCHEMA[key], 0, "here")


@pytest.mark.parametrize("key", INTEGERS)
def test_integers_refuse_fractions_and_zero(key: str) -> None:
    with pytest.raises(CardError, match=r"found 2\.5, allowed: a whole number"):
        check_value(SCHEMA[key], 2.5, "here")
    ideal = "0 does not mean ideal; leave the entry out, or give None"
    with pytest.raises(CardError, match=ideal if SCHEMA[key].spec.has_ideal else "found 0"):
        check_value(SCHEMA[key], 0, "here")


@pytest.mark.parametrize("key", CHOICES)
def test_choices_refuse_with_the_nearest(key: str) -> None:
    name = SCHEMA[key].choices[-1]
    with pytest.raises(CardError, match=f"Did you mean {name!r}"):
        check_value(SCHEMA[key], name[:-1], "here")
    with pytest.raises(CardError, match="found 3, allowed"):
        check_value(SCHEMA[key], 3, "here")


@pytest.mark.parametrize("key", list(SCHEMA))
@pytest.mark.parametrize("ideal", [None, "ideal"])
def test_none_and_ideal_give_the_ideal_value_where_there_is_one(key: str, ideal: object) -> None:
    entry = SCHEMA[key]
    if entry.spec.has_ideal:
        assert check_value(entry, ideal, "here") == entry.default
    else:
        with pytest.raises(CardError, match="It has no ideal value"):
            check_value(entry, ideal, "here")


@pytest.mark.parametrize(
    "value", [1, 1.0, np.float32(1), np.int64(1), np.float16(1), Fraction(1, 1)]
)
def test_real_numbers_of_any_make_become_plain(value: object) -> None:
    assert type(check_value(SCHEMA["forward.offset"], value, "here")) is float
    assert type(check_value(SCHEMA["array.rows"], value, "here")) is int


def test_negative_zero_becomes_zero() -> None:
    assert str(check_value(SCHEMA["forward.offset"], -0.0, "here")) == "0.0"


def test_unknown_key_lists_its_section_and_the_nearest() -> None:
    with pytest.raises(CardError, match=r"array\.mapping.*Did you mean 'array\.rows'"):
        find_entry("array.row", "here")
    with pytest.raises(CardError, match=r"allowed: .*cell\.\*"):
        find_entry("nonsense", "here")
    with pytest.raises(CardError, match="no such card entry"):
        find_entry(None, "here")


def test_show_is_short() -> None:
    assert show("x" * 1000).endswith("...")
    assert show(10**6000) == "a number too large to print"


@pytest.mark.parametrize("key", TABLES)
@pytest.mark.parametrize("value", [1.0, True, [1.0], {}, np.zeros(2), b"x.h5"])
def test_tables_refuse(key: str, value: object) -> None:
    with pytest.raises(CardError, match=f"here: {key}: found .*, allowed: a table of"):
        check_value(SCHEMA[key], value, "here")


@pytest.mark.parametrize("key", TABLES)
def test_tables_refuse_points_beyond_the_range(key: str) -> None:
    entry = SCHEMA[key]
    x, y = entry.spec.columns
    for table, name in ((Table.of([-1, 1], [0, 0]), x), (Table.of([0, 1], [0, -1]), y)):
        with pytest.raises(CardError, match=f"found 'a {name} of -1', allowed"):
            check_value(entry, table, "here")


def write(path: Path, **columns: tuple[object, str | None]) -> Path:
    with h5py.File(path, "w") as file:
        for name, (points, unit) in columns.items():
            file[name] = points
            if unit is not None:
                file[name].attrs["unit"] = unit
    return path


def test_a_table_comes_from_hdf5_in_its_units(tmp_path: Path) -> None:
    path = write(tmp_path / "n.h5", conductance=([0, 5, 20.0], "uS"), sigma=([1, 2, 3], "nS"))
    for name in (path, str(path)):
        card = load_card("ideal").override(
            {"cell.read_noise.law": "table", "cell.read_noise.table": name}
        )
        assert card.get("cell.read_noise.table") == Table((0.0, 5e-6, 2e-5), (1e-9, 2e-9, 3e-9))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"conductance": ([0, 1.0], "uS")}, r"sigma: found nothing.*holds: conductance"),
        ({"conductance": ([0, 1.0], None), "sigma": ([1, 1.0], "S")}, r"unit: found nothing"),
        ({"conductance": ([0, 1.0], "V"), "sigma": ([1, 1.0], "S")}, r"found 'V', allowed: an att"),
        ({"conductance": ([0, np.nan], "S"), "sigma": ([1, 1.0], "S")}, "conductance: found NaN"),
        ({"conductance": ([1, 0.0], "S"), "sigma": ([1, 1.0], "S")}, "x that rises strictly"),
        ({"conductance": ([0, 1.0], "S"), "sigma": ([1.0], "S")}, "2 points of x and 1 of y"),
        ({"conductance": ([[0, 1.0]], "S"), "sigma": ([1.0], "S")}, r"found shape \(1, 2\)"),
        ({"conductance": (["a", "b"], "S"), "sigma": ([1.0], "S")}, "of object"),
        ({"conductance": ([0, 2.0], "S"), "sigma": ([1, 1.0], "S")}, "found 'a conductance of 2'"),
    ],
)
def test_bad_hdf5_tables_name_file_and_dataset(
    tmp_path: Path, columns: dict[str, tuple[object, str | None]], message: str
) -> None:
    path = write(tmp_path / "n.h5", **columns)
    with pytest.raises(CardError, match=message) as error:
        check_value(SCHEMA["cell.read_noise.table"], path, "here")
    assert "cell.read_noise.table" in str(error.value)


def test_missing_and_broken_files(tmp_path: Path) -> None:
    entry = SCHEMA["cell.read_noise.table"]
    (tmp_path / "broken.h5").write_text("x")
    for name in ("none.h5", "broken.h5", "."):
        with pytest.raises(CardError, match="found no HDF5 file"):
            check_value(entry, tmp_path / name, "here")
