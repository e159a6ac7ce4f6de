"""One read of one array in one direction: ranges, matmuls per tile segment, edges."""

from __future__ import annotations

import math

import numpy as np
import torch

from eptsim.base.errors import ReadError
from eptsim.crossbar import kernels_cpu, kernels_torch
from eptsim.crossbar.plan import Plan
from eptsim.crossbar.stages import LARGEST_DRIVE, Position, smallest_range
from eptsim.crossbar.tiles import matmul, padded_rows

#: No float32 sum of products below this overflows.
_SAFE = 1e37
#: By dtype: the integer of the same width, all its bits but the sign, and infinity's bits.
_BITS = {
    torch.float32: (np.int32, 2**31 - 1, 0xFF << 23),
    torch.float64: (np.int64, 2**63 - 1, 0x7FF << 52),
}


def run(
    plan: Plan,
    x: torch.Tensor,
    held: float | None,
    position: Position,
    reference: torch.Tensor | None,
) -> torch.Tensor:
    """Read ``x`` (rows, inner) -> (rows, lines).

    ``held`` is the range shared by all vectors, ``None`` for one range per vector. ``reference``
    (segments, lines) is subtracted after the ADC, in normalised units; without one, what a
    calibration found is.
    """
    if plan.input_scale is not None:
        x = x * plan.input_scale
    if reference is None:
        reference = plan.correction
    if plan.stage.exact:  # its zero reference is zero
        y = _exact(plan, x)
    elif plan.fused:
        y = _run_fused(plan, x, held, position, reference)
    else:
        y = _run_torch(plan, x, held, position, reference)
    if not _cannot_overflow(plan, x, y) and not _finite(y):
        if not _finite(x):  # what is not finite in x is not finite in y either
            _refuse_input(plan, 1)
        _refuse(plan, f"found a result beyond {y.dtype}, allowed: smaller weights or inputs.")
    return y


def zero_reference(plan: Plan, rows: int, position: Position) -> torch.Tensor:
    """Mean over ``rows`` reads with no drive, (segments, lines), in normalised units after the ADC.

    This is what the nudged phase subtracts (reference placement ``line``).
    """
    shape = plan.stage.offset.shape
    if plan.stage.line_sigma == 0:
        rows = 1
    return sense_currents(plan, plan.stored.new_zeros((rows, shape[1])), position)


def sense_currents(plan: Plan, injected: torch.Tensor, position: Position) -> torch.Tensor:
    """Mean over the rows of what each line shows for ``injected`` currents (rows, lines).

    (segments, lines), in normalised units after the ADC; the cells have no part in it.
    """
    shape = plan.stage.offset.shape
    result = injected.new_empty(shape)
    offset = plan.stage.offset_at(position.time_s)
    for segment in range(shape[0]):
        current = injected.clone()
        if plan.fused:
            out = torch.empty_like(current)
            flags = (True, True, True)
            _sense(plan, current, out, segment, flags, offset, None, None, None, position)
            current = out
        else:
            current = kernels_torch.sense(
                current, plan.stage, segment, offset, None, None, plan.stream, position
            )
        result[segment] = current.mean(dim=0)
    return result


def _exact(plan: Plan, x: torch.Tensor) -> torch.Tensor:
    rows = x.shape[0]
    y = matmul(_padded(x), plan.oriented[0])
    return y if y.shape[0] == rows else y[:rows].contiguous()


def _cannot_overflow(plan: Plan, x: torch.Tensor, y: torch.Tensor) -> bool:
    """Whether a look at ``x`` alone, where it is the smaller one, shows that ``y`` is finite."""
    if not plan.stage.exact or x.device.type != "cpu" or x.numel() >= y.numel():
        return False
    values = x.numpy()
    top = max(float(values.max()), -float(values.min()))
    # false for NaN too
    return top * x.shape[1] * max(plan.largest, 1.0) < _SAFE


def _finite(x: torch.Tensor) -> bool:
    if x.device.type != "cpu":
        return bool(torch.isfinite(x).all())
    values = x.numpy()  # wakes no threads; NaN and infinity both reach one of the extremes
    return math.isfinite(values.max()) and math.isfinite(values.min())


def _refuse(plan: Plan, what: str) -> None:
    name = "read" if plan.forward else "read_transpose"
    raise ReadError(f"{name} of array {plan.path!r}: {what}")


def _refuse_input(plan: Plan, flaw: int) -> None:
    """Raise for a ``flaw`` as :func:`kernels_cpu.drive` numbers them."""
    if flaw == 1:
        _refuse(plan, "found NaN or infinity in the input, allowed: finite numbers.")
    _refuse(
        plan,
        f"found an input more than {LARGEST_DRIVE:g} times the range, allowed: smaller inputs, "
        "or a wider range.",
    )


def _run_fused(
    plan: Plan,
    x: torch.Tensor,
    held: float | None,
    position: Position,
    reference: torch.Tensor | None,
) -> torch.Tensor:
    stage = plan.stage
    rows, lines = x.shape[0], plan.lines
    u = x.new_empty((padded_rows(rows), x.shape[1]))
    scale = x.new_empty(rows)
    limited = stage.input_limit is not None
    constants = np.array(
        [
            held or 0.0, stage.input_limit or 0.0, stage.dac_steps or 1, 0.0, 1.0,
            smallest_range(x.dtype), LARGEST_DRIVE,
        ],
        dtype=scale.numpy().dtype,
    )
    values, (integer, sign, infinity) = x.numpy(), _BITS[x.dtype]
    flaw = kernels_cpu.drive(
        values, values.view(integer), u.numpy(), scale.numpy(), held is None,
        stage.dac_steps is not None, limited, constants, np.array([sign, infinity], integer),
    )
    if flaw:
        _refuse_input(plan, flaw)
    if plan.bend is not None:
        u = plan.bend(u)
    weights, offset = plan.weights_at(position.time_s), stage.offset_at(position.time_s)
    cells = _cell_variances(plan)
    out = x.new_empty((rows, lines))
    current = x.new_empty((u.shape[0], lines))
    last = len(plan.segments) - 1
    for index, segment in enumerate(plan.segments):
        segment_u = u[:, segment.part]
        matmul(segment_u, weights[segment.k][segment.part], out=current)
        variance, row_variance = _variances(plan, segment_u[:rows], index, cells)
        _add_shared_noise(plan, current, segment_u[:rows], index, position)
        flags = (index == 0, index == last, False)
        line = None if reference is None else reference[index]
        _sense(
            plan, current, out, index, flags, offset, line, variance, row_variance, position,
            scale=scale,
        )
    return out


def _sense(
    plan: Plan,
    current: torch.Tensor,
    out: torch.Tensor,
    index: int,
    flags: tuple[bool, bool, bool],
    offset: torch.Tensor,
    reference: torch.Tensor | None,
    variance: torch.Tensor | None,
    row_variance: torch.Tensor | None,
    position: Position,
    scale: torch.Tensor | None = None,
) -> None:
    stage = plan.stage
    first, last, normalised = flags
    rows = out.shape[0]
    empty = current.new_empty(0)
    weight_scale = 1.0 if normalised else plan.scale
    constants = np.array(
        [
            stage.line_sigma**2, stage.full_scale, stage.adc_steps or 1, weight_scale, 1.0,
        ],
        dtype=empty.numpy().dtype,
    )
    line = torch.zeros_like(offset[index]) if reference is None else reference
    factor = torch.ones_like(offset[index])
    if plan.factor is not None and not normalised:
        factor = plan.factor[index]
    kernels_cpu.sense(
        current.numpy(), out.numpy(), first, last, stage.gain[index].numpy(),
        offset[index].numpy(), line.numpy(), factor.numpy(),
        (current.new_empty((0, 0)) if variance is None else variance).numpy(),
        (empty if row_variance is None else row_variance).numpy(),
        (torch.ones(rows, dtype=out.dtype) if scale is None else scale).numpy(),
        stage.line_sigma > 0 or variance is not None or row_variance is not None,
        stage.adc_steps is not None, stage.railed, constants, position.row,
        np.uint32(position.read & 0xFFFFFFFF), np.uint32(index),
        np.uint32(plan.stream.key0), np.uint32(plan.stream.key1),
    )


def _cell_variances(plan: Plan) -> tuple[list[torch.Tensor], float] | None:
    """Read variance of the single weights, where they differ; see ``CellNoise.variances``."""
    if plan.noise is None or plan.noise.uniform is not None:
        return None
    return plan.noise.variances(plan.forward)


def _variances(
    plan: Plan,
    u: torch.Tensor,
    index: int,
    cells: tuple[list[torch.Tensor], float] | None,
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Read variance of a segment's currents: per row and line, and per row."""
    if plan.noise is None:
        return None, None
    segment = plan.segments[index]
    square = u * u
    row = None
    full = None
    if plan.noise.uniform is not None:
        row = square.sum(dim=1) * plan.noise.uniform
    else:
        assert cells is not None
        variances, factor = cells
        if factor != 1.0:
            square.mul_(factor)
        full = matmul(_padded(square), variances[segment.k][segment.part])[: u.shape[0]]
    column = plan.reference_column
    if column is not None and not plan.forward:
        # one segment of a transposed read is one tile of bit lines
        tile = index % len(column.out_tiles)
        extra = u.sum(dim=1, keepdim=True) ** 2 * column.variance[segment.k, tile]
        full = extra if full is None else full + extra
    return full, row


def _padded(x: torch.Tensor) -> torch.Tensor:
    rows = x.shape[0]
    if rows == padded_rows(rows):
        return x
    return torch.cat([x, x.new_zeros((padded_rows(rows) - rows, x.shape[1]))])


def _add_shared_noise(
    plan: Plan,
    current: torch.Tensor,
    u: torch.Tensor,
    index: int,
    position: Position,
) -> None:
    """Add the read noise of the reference columns, shared by all outputs of a tile, in place."""
    column = plan.reference_column
    if column is None or not plan.forward:
        return
    rows, segment = u.shape[0], plan.segments[index]
    square = _padded(u * u)
    seen = column.variance[segment.k][:, segment.part]
    variance = matmul(square, seen.T.contiguous())[:rows]
    if u.device.type == "cpu":
        draws = torch.from_numpy(
            column.stream.normal(
                rows, len(column.out_tiles), first_row=position.row, read=position.read,
                plane=index,
            )
        )
    else:
        draws = column.stream.normal_torch(
            rows, len(column.out_tiles), first_row=position.row, read=position.read, plane=index,
            device=u.device,
        )
    shared = variance.sqrt() * draws.to(u.dtype)
    for tile, lines in enumerate(column.out_tiles):
        current[:rows, lines] += shared[:, tile : tile + 1]


def _run_torch(
    plan: Plan,
    x: torch.Tensor,
    held: float | None,
    position: Position,
    reference: torch.Tensor | None,
) -> torch.Tensor:
    if not _finite(x):
        _refuse_input(plan, 1)
    rows = x.shape[0]
    u, scale = kernels_torch.drive(x, plan.stage, held)
    stage, time_s = plan.stage, position.time_s
    if plan.stage.dac_steps is None and bool((u.abs() > LARGEST_DRIVE).any()):
        _refuse_input(plan, 2)
    if plan.bend is not None:
        u = plan.bend(u)
    weights, offset = plan.weights_at(time_s), stage.offset_at(time_s)
    cells = _cell_variances(plan)
    total = x.new_zeros((rows, plan.lines))
    for index, segment in enumerate(plan.segments):
        segment_u = u[:, segment.part]
        current = matmul(_padded(segment_u), weights[segment.k][segment.part])
        _add_shared_noise(plan, current, segment_u, index, position)
        full, row = _variances(plan, segment_u, index, cells)
        variance = full
        if row is not None:
            variance = row[:, None] if full is None else full + row[:, None]
        part = kernels_torch.sense(
            current[:rows], stage, index, offset, variance, reference, plan.stream, position
        )
        total += part if plan.factor is None else part * plan.factor[index]
    return total * (scale * plan.scale)[:, None]
