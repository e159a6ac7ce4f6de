"""Reading results back: one file, a folder, and whatever else is found there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.base.errors import ResultsError
from eptsim.results import store
from eptsim.results.store import Variable, write_result
from eptsim.results.views import flatten, open_results, settings_of


def write(folder: Path, settings: dict[str, Any], layers: int = 2, unit: str = "1") -> Path:
    value = float(settings.get("ep", {}).get("beta") or 0.0)
    return write_result(
        folder,
        settings,
        {"cosine": Variable(np.full(layers, value), ("layer",), unit, "cosine")},
        {"layer": Variable(np.arange(layers), ("layer",), "1")},
        {"title": "same"},
        seed=settings.get("seed"),
    )


def test_one_file(tmp_path: Path) -> None:
    given_settings = {"ep": {"beta": 0.5, "list": [1, 2]}, "seed": 1}
    dataset = open_results(write(tmp_path, given_settings))
    assert dict(dataset.sizes) == {"layer": 2}
    assert settings_of(dataset) == given_settings
    assert dataset.attrs["seed"] == 1


def test_folder_joins_tasks_and_names_what_differs(tmp_path: Path) -> None:
    betas = {0.1, 0.2, 0.3}
    for beta in betas:
        write(tmp_path, {"ep": {"beta": beta, "sweeps": 3}, "card": "ideal"})
    (tmp_path / ".half.tmp").write_bytes(b"x")
    (tmp_path / "notes.txt").write_text("x")
    dataset = open_results(tmp_path)
    assert dict(dataset.sizes) == {"task": 3, "layer": 2}
    assert set(dataset["ep.beta"].values) == betas
    np.testing.assert_array_equal(dataset["cosine"][:, 1], dataset["ep.beta"])
    assert set(dataset.coords) == {"task", "layer", "settings", "ep.beta"}
    assert dataset.attrs["title"] == "same" and "settings" not in dataset.attrs
    files = sorted(p.stem for p in tmp_path.glob("*.h5"))
    assert dataset["task"].values.tolist() == files
    first = json.loads(str(dataset["settings"].values[0]))
    assert first["ep"]["beta"] == dataset["ep.beta"].values[0]
    assert dataset["cosine"].attrs["units"] == "1"
    with pytest.raises(ResultsError, match="without settings of its own"):
        settings_of(dataset)


def test_one_task_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path, {"a": 1})
    assert dict(open_results(tmp_path).sizes) == {"task": 1, "layer": 2}


def test_different_sizes_join_along_their_coordinates(tmp_path: Path) -> None:
    write(tmp_path, {"layers": 2, "ep": {"beta": 1.0}}, layers=2)
    write(tmp_path, {"layers": 3, "ep": {"beta": 1.0}}, layers=3)
    dataset = open_results(tmp_path)
    assert dataset.sizes["layer"] == 3
    missing = dataset["cosine"].isnull().sum("layer")
    assert missing.where(dataset["layers"] == 2, drop=True).item() == 1
    assert missing.where(dataset["layers"] == 3, drop=True).item() == 0


def test_different_sizes_without_coordinates_are_refused(tmp_path: Path) -> None:
    for size in (2, 3):
        data = Variable(np.ones(size), ("n",), "1")
        write_result(tmp_path, {"size": size}, {"x": data})
    with pytest.raises(ResultsError, match="2 results do not fit together"):
        open_results(tmp_path)


def test_a_variable_that_some_tasks_lack(tmp_path: Path) -> None:
    write_result(tmp_path, {"t": 1}, {"x": Variable(np.float64(1), (), "1")})
    write_result(
        tmp_path,
        {"t": 2},
        {"x": Variable(np.float64(2), (), "1"), "y": Variable(np.float64(3), (), "1")},
    )
    dataset = open_results(tmp_path)
    assert dataset["y"].where(dataset["t"] == 2, drop=True).item() == 3
    assert bool(dataset["y"].where(dataset["t"] == 1, drop=True).isnull().all())


def test_kinds_of_differing_settings(tmp_path: Path) -> None:
    tasks = [
        {"i": 1, "f": 1.0, "n": None, "s": "a", "b": True, "m": 1, "l": [1], "layer": 5},
        {"i": 2, "f": 2.5, "n": 3, "s": "b", "b": False, "m": "x", "l": [2], "layer": 6},
    ]
    for task in tasks:
        write(tmp_path, task)
    dataset = open_results(tmp_path).sortby("i")
    assert dataset["i"].dtype == np.int64 and dataset["f"].dtype == np.float64
    np.testing.assert_array_equal(dataset["n"], [np.nan, 3.0])
    assert dataset["s"].values.tolist() == ["a", "b"] and dataset["b"].dtype == bool
    assert dataset["m"].values.tolist() == ["1", "x"] and "l" not in dataset
    assert dataset["settings.layer"].values.tolist() == [5, 6]
    assert dataset["layer"].dims == ("layer",)


def test_settings_that_equal_across_types_still_differ(tmp_path: Path) -> None:
    write(tmp_path, {"a": 1})
    write(tmp_path, {"a": 1.0})
    assert open_results(tmp_path)["a"].values.tolist() == [1.0, 1.0]


def test_units_and_dimensions_must_agree(tmp_path: Path) -> None:
    write(tmp_path / "u", {"a": 1}, unit="1")
    write(tmp_path / "u", {"a": 2}, unit="J")
    with pytest.raises(ResultsError, match=r"\.h5: found 'cosine' with units"):
        open_results(tmp_path / "u")
    write(tmp_path / "d", {"a": 1})
    write_result(tmp_path / "d", {"a": 2}, {"cosine": Variable(np.ones(()), (), "1")})
    with pytest.raises(ResultsError, match="found 'cosine' with dimensions"):
        open_results(tmp_path / "d")


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"none\.h5: cannot be read"):
        open_results(tmp_path / "none.h5")
    with pytest.raises(ResultsError, match=r"found no \.h5 files"):
        open_results(tmp_path)


def test_foreign_hdf5_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["x"] = 1
    with pytest.raises(
        ResultsError, match=r"foreign\.h5: found .* bytes that do not end in their check"
    ):
        open_results(tmp_path / "foreign.h5")
    write(tmp_path, {"a": 1})
    with pytest.raises(ResultsError, match=r"foreign\.h5"):
        open_results(tmp_path)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return write(tmp_path_factory.mktemp("good"), {"ep": {"beta": 0.1}}, layers=50).read_bytes()


@settings(deadline=None)
@given(st.data())
def test_truncated_files(
    tmp_path_factory: pytest.TempPathFactory, good: bytes, data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("t") / "broken.h5"
    path.write_bytes(good[: data.draw(st.integers(0, len(good) - 1))])
    with pytest.raises(ResultsError, match=r"broken\.h5: "):
        open_results(path)


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("t") / "broken.h5"
    path.write_bytes(data)
    with pytest.raises(ResultsError, match=r"broken\.h5: found .* do not end in their checksum"):
        open_results(path)


@settings(deadline=None)
@given(st.data())
def test_flipped_bits(
    tmp_path_factory: pytest.TempPathFactory, good: bytes, data: st.DataObject
) -> None:
    """Without the checksum, some of these hang the HDF5 library."""
    changed = bytearray(good)
    changed[data.draw(st.integers(0, len(good) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.mktemp("t") / "broken.h5"
    path.write_bytes(changed)
    with pytest.raises(ResultsError, match=r"broken\.h5: "):
        open_results(path)


def test_another_format_of_eptsims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "FORMAT", "eptsim-result-9")
    path = write(tmp_path, {"a": 1})
    monkeypatch.undo()
    with pytest.raises(ResultsError, match="found format 'eptsim-result-9', allowed: 'eptsim-res"):
        open_results(path)


def test_flatten() -> None:
    assert flatten({"a": {"b": {"c": 1}, "d": [2]}, "e": None}) == {
        "a.b.c": 1,
        "a.d": [2],
        "e": None,
    }
