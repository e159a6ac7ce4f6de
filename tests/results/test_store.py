"""The store: complete files or none, readable by every tool, bad input refused by name."""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from eptsim.base.errors import InputError, ResultsError
from eptsim.results.identity import canonical_json, task_hash
from eptsim.results.provenance import collect_provenance
from eptsim.results.store import is_done, read_identity, result_path, write_result
from eptsim.results.variable import Variable
from eptsim.results.views import open_results

SETTINGS: dict[str, Any] = {"study": "offsets", "ep": {"beta": 0.01}, "seed": 3}
COORDS = {
    "layer": Variable(np.arange(2), ("layer",), "1", "block number"),
    "label": Variable(np.array(["qkv", "π"]), ("array",), "1", "name of the array"),
}
ARRAYS = {
    "cosine": Variable(np.array([[0.5, np.nan]] * 2), ("layer", "array"), "1", "cosine"),
    "energy_j": Variable(np.float64(2e-9), (), "J", "energy of one gradient"),
    "settled": Variable(np.array([True, False]), ("layer",), "1", "the phase settled"),
    "sweeps": Variable(np.array([3, 4], np.int32), ("layer",), "1", "sweeps used"),
}


def write(folder: Path, **changes: Any) -> Path:
    arguments = {"arrays": ARRAYS, "coords": COORDS, "settings": SETTINGS} | changes
    return write_result(folder, **arguments)


def test_name_is_the_hash_of_the_settings(tmp_path: Path) -> None:
    path = write(tmp_path / "new" / "folder")
    assert path == result_path(tmp_path / "new" / "folder", SETTINGS)
    assert path.name == f"{task_hash(SETTINGS)}.h5"
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_done_or_not(tmp_path: Path) -> None:
    assert not is_done(tmp_path, SETTINGS) and not is_done(tmp_path / "none", SETTINGS)
    path = write(tmp_path)
    assert is_done(tmp_path, SETTINGS) and not is_done(tmp_path, {**SETTINGS, "seed": 4})
    path.replace(result_path(tmp_path, {"a": 1}))
    with pytest.raises(ResultsError, match="holds the settings of another task"):
        is_done(tmp_path, {"a": 1})
    path.write_bytes(b"\x89HDF\r\n\x1a\n")
    with pytest.raises(ResultsError, match=path.name):
        is_done(tmp_path, SETTINGS)


def test_the_same_result_is_the_same_file_to_the_bit(tmp_path: Path) -> None:
    assert write(tmp_path / "a").read_bytes() == write(tmp_path / "b").read_bytes()


def test_attributes(tmp_path: Path) -> None:
    card = "# carte à mémoire\n" + "x = 1\n" * 50_000
    path = write(tmp_path, attributes={"title": "é", "n": 3, "ok": True}, seed=7, card_text=card)
    with h5py.File(path) as file:
        found = dict(file.attrs)
    assert found["settings"] == canonical_json(SETTINGS) == read_identity(path)
    assert found["task"] == task_hash(SETTINGS) and found["seed"] == 7
    assert found["card_text"] == card
    assert found["card_sha256"] == hashlib.sha256(card.encode()).hexdigest()
    assert (found["title"], found["n"], found["ok"]) == ("é", 3, True)
    for name, value in collect_provenance().items():
        assert found[name] == value


def test_no_path_of_this_machine_is_in_the_file(tmp_path: Path) -> None:
    data = write(tmp_path).read_bytes()
    assert str(tmp_path).encode() not in data and str(Path.cwd()).encode() not in data


def test_plain_h5py_sees_dimension_scales_and_units(tmp_path: Path) -> None:
    with h5py.File(write(tmp_path)) as file:
        assert all("units" in file[name].attrs for name in (*ARRAYS, *COORDS))
        assert file["energy_j"].attrs["units"] == "J"
        assert file["energy_j"].attrs["long_name"] == "energy of one gradient"
        cosine = file["cosine"]
        assert cosine.dims[0][0] == file["layer"] and cosine.dims[1][0] == file["array"]
        np.testing.assert_array_equal(cosine[()], ARRAYS["cosine"].data)
        assert file["label"].asstr()[()].tolist() == ["qkv", "π"]


def test_plain_xarray_opens_the_file(tmp_path: Path) -> None:
    with xr.open_dataset(write(tmp_path)) as dataset:
        assert dict(dataset.sizes) == {"layer": 2, "array": 2}
        assert set(dataset.data_vars) == set(ARRAYS) and set(dataset.coords) == set(COORDS)
        assert dataset["settled"].dtype == bool and dataset["sweeps"].dtype == np.int32
        assert dataset["cosine"].attrs == {"units": "1", "long_name": "cosine"}


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_.]{0,8}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
KINDS: st.SearchStrategy[Any] = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="="),
    hnp.unsigned_integer_dtypes(),
    hnp.floating_dtypes(sizes=(32, 64)),
    st.just(np.dtype("U5")),
)


@st.composite
def variables(draw: st.DrawFn) -> Variable:
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
    kind = draw(KINDS)
    elements = TEXTS.map(lambda t: t.rstrip("\0")) if kind.kind == "U" else None
    data = draw(hnp.arrays(kind, shape, elements=elements))
    dims = tuple(f"d{axis}_{size}" for axis, size in enumerate(shape))
    return Variable(data, dims, draw(st.sampled_from(["1", "s", "J", "µV"])), draw(TEXTS))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(NAMES, variables(), max_size=4))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, arrays: dict[str, Variable]) -> None:
    dataset = open_results(write_result(tmp_path_factory.mktemp("r"), SETTINGS, arrays))
    assert set(dataset.data_vars) == set(arrays) and not dataset.coords
    for name, variable in arrays.items():
        found = dataset[name]
        assert found.dims == variable.dims and found.attrs["units"] == variable.unit
        assert found.attrs["long_name"] == variable.description
        np.testing.assert_array_equal(found.values, variable.data)
        assert found.dtype.kind == variable.data.dtype.kind
        if found.dtype.kind != "U":
            assert found.dtype == variable.data.dtype.newbyteorder("=")


def one(data: Any, *dims: str) -> Variable:
    return Variable(np.asarray(data), dims, "1")


@pytest.mark.parametrize(
    ("arrays", "coords", "message"),
    [
        ({"a/b": one(1)}, {}, "found 'a/b', allowed: letters"),
        ({"": one(1)}, {}, "found ''"),
        ({"a": one([1], "b c")}, {}, "found 'b c'"),
        ({"task": one(1)}, {}, "found 'task'"),
        ({"a": one([1], "task")}, {}, "found 'task'"),
        ({"a": one([1], "x"), "b": one([1, 2], "x")}, {}, "size 2 along 'x', allowed: 1.*in 'a'"),
        ({"a": one(1)}, {"a": one(1)}, "among arrays and coords"),
        ({"x": one([1], "x")}, {}, "'x': has the name of a dimension"),
        ({"a": one([1], "x")}, {"x": one(1)}, "'x': has the name of a dimension"),
        ({"a": np.ones(1)}, {}, "'a': found ndarray, allowed: Variable"),
    ],
)
def test_bad_names_and_dimensions(tmp_path: Path, arrays: Any, coords: Any, message: str) -> None:
    with pytest.raises(ResultsError, match=message):
        write_result(tmp_path, SETTINGS, arrays, coords)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"settings": "x"}, "'settings': the name is taken"),
        ({"numpy_version": "1"}, "'numpy_version': the name is taken"),
        ({"_FillValue": 1}, "not allowed"),
        ({"a": None}, "'a': found NoneType"),
        ({"a": [1]}, "'a': found list"),
        ({"a": 1 << 64}, "64-bit"),
        ({"a": "x\0"}, "NUL"),
        ({"a": "\ud800"}, "surrogate"),
    ],
)
def test_bad_attributes(tmp_path: Path, attributes: Any, message: str) -> None:
    with pytest.raises(ResultsError, match=message):
        write(tmp_path, attributes=attributes)
    assert not list(tmp_path.iterdir())


def test_settings_without_json_form(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"settings\.a: found nan"):
        write(tmp_path, settings={"a": float("nan")})


def test_a_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("")
    with pytest.raises(ResultsError, match=r"f/.*\.h5: cannot be written \((Not a dir|File exi)"):
        write(tmp_path / "f")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_read_only_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(ResultsError, match=r"\.h5: cannot be written \(Permission denied\)"):
        write(tmp_path)


@pytest.mark.parametrize("step", ["open", "fsync", "replace"])
def test_failure_at_any_step_names_the_file_and_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = write(tmp_path)
    before = path.read_bytes()

    def fail(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os if step == "fsync" else Path, step, fail)
    with pytest.raises(ResultsError, match=rf"{path.name}: cannot be written \(Read-only file"):
        write(tmp_path, seed=1)
    monkeypatch.undo()
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_full_disk(tmp_path: Path) -> None:
    """A real write that fails half way: the process may not write files beyond 4 kB."""
    code = (
        "import sys, numpy as np\n"
        "from eptsim.base.errors import ResultsError\n"
        "from eptsim.results.store import Variable, write_result\n"
        "data = np.random.default_rng(0).random(5000)\n"
        "try: write_result(sys.argv[1], {'a': 1}, {'x': Variable(data, ('n',), '1')})\n"
        "except ResultsError as error: sys.stdout.write(str(error))\n"
    )

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    done = subprocess.run(
        [sys.executable, "-B", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        preexec_fn=limit,
    )
    assert result_path(tmp_path, {"a": 1}).name + ": cannot be written (File too" in done.stdout
    assert not list(tmp_path.iterdir())


def test_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path)
    assert not list(tmp_path.iterdir())
