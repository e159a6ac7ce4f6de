"""The same two passes as ``kernels_cpu`` in plain torch operations, for any device.

This is also the written-out definition of the read stages: the numba pass is tested against it.
"""

from __future__ import annotations

import torch

from eptsim.base.streams import Stream
from eptsim.crossbar.stages import LineStage, Position, smallest_range


def drive(
    x: torch.Tensor, stage: LineStage, held: float | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Stage 1: drive values (rows, in) in full-scale units and the range (rows,) of each vector.

    ``held`` is the range shared by all vectors; ``None`` scales each vector to its own maximum.
    """
    if held is None:
        scale = x.abs().amax(dim=1)
        scale = torch.where(scale == 0, torch.ones_like(scale), scale)
        scale = scale.clamp(min=smallest_range(x.dtype), max=stage.input_limit)
    else:
        scale = torch.full((x.shape[0],), held, dtype=x.dtype, device=x.device)
    if stage.dac_steps is not None:  # no range is above the limit
        steps = float(stage.dac_steps)
        codes = torch.round(x * (steps / scale)[:, None]).clamp(-steps, steps)
        return codes * (1.0 / steps), scale
    if stage.input_limit is not None:
        x = x.clamp(-stage.input_limit, stage.input_limit)
    return x * (1.0 / scale)[:, None], scale


def sense(
    current: torch.Tensor,
    stage: LineStage,
    segment: int,
    offset: torch.Tensor,
    variance: torch.Tensor | None,
    reference: torch.Tensor | None,
    stream: Stream,
    position: Position,
) -> torch.Tensor:
    """Stages 3 to 5 of one tile segment: digital values (rows, out) in normalised units.

    ``current`` (rows, out) is in normalised units already, ``variance`` broadcasts to it;
    ``offset`` and ``reference`` (segments, out) belong to the lines.
    """
    v = current
    if variance is not None or stage.line_sigma > 0:
        normals = stream.normal_torch(
            v.shape[0],
            v.shape[1],
            first_row=position.row,
            read=position.read,
            plane=segment,
            device=v.device,
        ).to(v.dtype)
        total = stage.line_sigma**2 if variance is None else variance + stage.line_sigma**2
        sigma = torch.sqrt(torch.as_tensor(total, dtype=v.dtype, device=v.device))
        v = v + sigma * normals
    v = v * stage.gain[segment] + offset[segment]
    if stage.adc_steps is not None:
        steps, full = float(stage.adc_steps), stage.full_scale
        v = torch.round(v * (steps / full)).clamp(-steps, steps) * (full / steps)
    elif stage.railed:
        v = v.clamp(-stage.full_scale, stage.full_scale)
    return v if reference is None else v - reference[segment]
