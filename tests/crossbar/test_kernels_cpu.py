"""The fused numba passes against the plain torch operations, feature by feature."""

import numpy as np
import pytest
import torch

from eptsim.crossbar import kernels_cpu
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.stages import LARGEST_DRIVE, smallest_range

FEATURES = {
    "dac": {"dac_bits": 6},
    "adc": {"adc_bits": 8},
    "input limit": {"input_range": 0.7},
    "input limit and dac": {"input_range": 0.7, "dac_bits": 5},
    "rails": {"output_range": 2.0},
    "rails and adc": {"output_range": 2.0, "adc_bits": 6},
    "offset": {"offset": 0.05},
    "gain": {"gain": 0.1},
    "line noise": {"line_noise": 0.01},
    "all": {
        "dac_bits": 6, "adc_bits": 8, "input_range": 0.7, "output_range": 3.0, "offset": 0.02,
        "gain": 0.05, "line_noise": 0.01,
    },
}  # fmt: skip
CELLS = {
    "quiet": {},
    "constant": {"cell.read_noise.law": "constant", "cell.read_noise.sigma": 0.05},
    "proportional": {"cell.read_noise.law": "proportional", "cell.read_noise.sigma": 0.05},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("feature", FEATURES)
def test_fused_equals_torch(ideal, feature, cells, dtype):
    both = ("forward", "transpose")
    changes = {f"{d}.{k}": v for d in both for k, v in FEATURES[feature].items()}
    changes |= CELLS[cells] | {"array.rows": 20, "array.columns": 30}
    generator = torch.Generator().manual_seed(5)
    w = 3.0 * torch.randn(70, 50, generator=generator, dtype=dtype)
    for mapping in ("differential", "reference_column"):
        card = ideal.override({**changes, "array.mapping": mapping})
        fast, plain = (Crossbar(w, card, seed=1, fused=fused) for fused in (True, False))
        for policy in ("per_vector", "fixed", "held"):
            for direction, name in (("forward", "read"), ("transpose", "read_transpose")):
                width = w.shape[1] if direction == "forward" else w.shape[0]
                x = torch.randn(19, width, generator=generator, dtype=dtype)
                results = []
                for array in (fast, plain):
                    array.hold_range(direction, 1.3)
                    results.append(getattr(array, name)(x, range_policy=policy))
                assert_equal_but_for_codes(*results, quantised="adc_bits" in FEATURES[feature])


def assert_equal_but_for_codes(got, want, quantised):
    """To rounding; a value on the edge between two codes of a converter may flip."""
    size = want.abs().max()
    wrong = (got - want).abs() > 3e-5 * size  # the normals agree to 3e-6 of a few sigma
    assert wrong.double().mean() <= (2e-2 if quantised and got.dtype == torch.float32 else 2e-3)


def drive(x, held=None, steps=None, limit=None):
    u, scale = np.empty((x.shape[0] + 2, x.shape[1]), x.dtype), np.empty(x.shape[0], x.dtype)
    integer, high, exponents = {4: (np.int32, 2**31 - 1, 255 << 23)}.get(
        x.itemsize, (np.int64, 2**63 - 1, 2047 << 52)
    )
    dtype = torch.from_numpy(x).dtype
    constants = [held or 0, limit or 0, steps or 1, 0, 1, smallest_range(dtype), LARGEST_DRIVE]
    flaw = kernels_cpu.drive(
        x, x.view(integer), u, scale, held is None, steps is not None, limit is not None,
        np.array(constants, x.dtype), np.array([high, exponents], integer),
    )  # fmt: skip
    return flaw, u, scale


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("steps", [None, 7])
def test_a_single_bad_value_is_found(dtype, bad, steps):
    x = np.ones((70, 33), dtype)
    assert drive(x, steps=steps)[0] == 0
    for row, column in ((0, 0), (69, 32), (35, 7)):
        x[row, column] = bad
        assert drive(x, steps=steps)[0] == 1
        assert drive(x, held=1.0, steps=steps, limit=3.0)[0] == 1
        x[row, column] = 1.0


def test_finite_numbers_whose_sum_overflows_are_fine():
    x = np.full((3, 50), 3e38, np.float32)
    flaw, u, scale = drive(x)
    assert flaw == 0
    np.testing.assert_allclose(u[:3], 1.0, rtol=1e-6)
    assert (scale == x[0, 0]).all()


def test_a_drive_beyond_all_bounds_is_found():
    x = np.full((3, 5), 1e20, np.float32)
    assert drive(x, held=1.0)[0] == 2
    assert drive(x, held=1.0, steps=7)[0] == 0
    assert drive(x, held=1.0, limit=4.0)[0] == 0


def test_padding_rows_are_driven_with_zero():
    _, u, _ = drive(np.ones((3, 5), np.float32))
    assert (u[3:] == 0).all()
