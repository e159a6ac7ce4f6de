"""One aihwkit tile, with every draw addressed: programmed, read in both directions, pulsed.

A tile's values are aihwkit's: weights in units of its own scale, inputs in units of the range.
What aihwkit's periphery does around the tile (ranges, digital scales) is the array's business.
"""

from __future__ import annotations

from typing import Any

import torch

from eptsim.base.streams import Stream
from eptsim.crossbar import aihwkit_native as native
from eptsim.crossbar.aihwkit_config import (
    AihwkitConverters,
    is_inference,
    private_copy,
    quiet_writing,
)
from eptsim.crossbar.stages import DIRECTIONS, Position
from eptsim.crossbar.tiles import padded_rows


class Tile:
    """One tile of aihwkit that stores ``weight`` (out, in).

    Parameters
    ----------
    weight : torch.Tensor, (out, in), float32
    rpu_config : aihwkit configuration
        Checked; a copy of it is used.
    converters : dict
        Direction -> its converters.
    seed : int
        Chip seed.
    address : str
        Name of the tile on its chip, part of every draw.

    Attributes
    ----------
    scales : torch.Tensor, (out,) or (1,)
        Digital factors of the outputs: weight = stored x scales.
    left_out : tuple of str
        Settings that have no effect here, see :func:`aihwkit_config.quiet_writing`.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        rpu_config: object,
        converters: dict[str, AihwkitConverters],
        seed: int,
        address: str,
    ) -> None:
        self._converters = converters
        self._seed, self._address = seed, address
        self._config = private_copy(rpu_config, self._word("devices"))
        sigma, self.left_out = quiet_writing(self._config)
        with native.torch_seed(self._word("tile")), torch.no_grad():
            self._tile = self._config.create_tile(*weight.shape, bias=False)
            self._tile.set_weights(weight)
        self._in_cpp = native.in_cpp(self._tile.tile)
        self._table: tuple[object, ...] = ()
        self._clean: torch.Tensor | None = None
        self._draw_lines()
        if sigma > 0:
            self._add_write_noise(sigma)
        self.scales = self._find_scales()

    def _word(self, *address: object) -> int:
        return native.word(self._seed, self._address, *address)

    def _find_scales(self) -> torch.Tensor:
        found = self._tile.get_scales()
        scales = torch.ones(1) if found is None else found.detach().cpu().float().reshape(-1)
        if is_inference(self._config) and self._config.drift_compensation is not None:
            scales = scales * self._tile.alpha.detach().cpu().float().reshape(-1)
        return scales

    def _draw_lines(self) -> None:
        """Draw again, from this tile's streams, what aihwkit has drawn per line from the clock."""
        if not self._in_cpp:
            return
        for direction in DIRECTIONS:
            if self._converters[direction].exact:
                continue
            forward = direction == "forward"
            io = self._config.forward if forward else self._config.backward
            tile = self._tile
            drawn = tile.get_forward_parameters() if forward else tile.get_backward_parameters()
            new = {}
            for name, value in drawn.items():
                if name != "out_nonlinearity_factor" and value.numel() > 0:
                    stream = Stream.of(self._seed, self._address, direction, name)
                    normal = torch.from_numpy(stream.normal(1, value.numel())[0])
                    new[name] = _spread(name, io, normal)
            if "out_nonlinearity" in new and io.slope_calibration > 0:
                mean = float(new["out_nonlinearity"].abs().mean())
                slope = (mean + io.r_series) * io.slope_calibration * _bound(io)
                new["out_nonlinearity_factor"] = torch.tensor([(1.0 + slope) ** 2])
            if forward:
                tile.set_forward_parameters(new)
            else:
                tile.set_backward_parameters(new)

    def _add_write_noise(self, sigma: float) -> None:
        """Write noise of the first programming; the first update starts from the clean weights.

        aihwkit keeps the weight without its noise beside the noisy one, and lets nobody set one of
        the two. A cell without a pulse in the first update loses its noise there.
        """
        simulator = self._tile.tile
        self._clean = simulator.get_weights().clone()
        stream = Stream.of(self._seed, self._address, "write_noise")
        normal = torch.from_numpy(stream.normal(*self._clean.shape))
        simulator.set_weights(self._clean + sigma * normal)

    def program(self, inference_time_s: float) -> None:
        """Program through the configuration's noise model, and let ``inference_time_s`` pass."""
        with native.torch_seed(self._word("program")), torch.no_grad():
            self._start("program", 0, 0)  # reads of the drift compensation
            self._tile.program_weights()
            self._tile.drift_weights(inference_time_s)
        self.scales = self._find_scales()

    def weight(self) -> torch.Tensor:
        """The stored matrix (out, in), digital scales included."""
        stored: torch.Tensor = self._tile.tile.get_weights()
        return stored.detach().cpu() * self.scales[:, None]

    def read(self, direction: str, u: torch.Tensor, position: Position) -> torch.Tensor:
        """Read drives ``u`` (rows, inner), in units of the range -> (rows, lines), normalised.

        Row k draws from the address ``position.row + k``, whatever rows are read with it.
        """
        with torch.no_grad():
            if not self._converters[direction].noisy:
                rows = u.shape[0]
                padded = torch.cat([u, u.new_zeros(padded_rows(rows) - rows, u.shape[1])])
                return self._call(direction, padded)[:rows]
            if self._in_cpp:
                rows_read = [
                    self._cpp_row(direction, u[k : k + 1], position.read, position.row + k)
                    for k in range(u.shape[0])
                ]
            else:
                rows_read = []
                for k in range(u.shape[0]):
                    row = self._word(direction, position.read, position.row + k)
                    with native.torch_seed(row):
                        rows_read.append(self._call(direction, u[k : k + 1]))
            return torch.cat(rows_read)

    def _cpp_row(self, direction: str, u: torch.Tensor, read: int, row: int) -> torch.Tensor:
        self._start(direction, read, row)
        return self._call(direction, u)

    def _start(self, what: str, read: int, row: int) -> None:
        """Start the generator of a C++ tile at one address."""
        if not self._in_cpp:
            return
        table = (what, read, row // native.ROWS_PER_TABLE)
        if table != self._table:
            native.fill_table(self._tile.tile, self._word("table", *table))
            self._table = table
        native.start_rand(self._word(what, read, row))

    def _call(self, direction: str, u: torch.Tensor) -> torch.Tensor:
        simulator = self._tile.tile
        found: torch.Tensor
        if direction == "forward":
            found = simulator.forward(u.contiguous(), *native.FORWARD)
        elif self._in_cpp:
            found = simulator.backward(u.contiguous(), *native.BACKWARD)
        else:
            from aihwkit.simulator.tiles.analog_mvm import AnalogMVM

            # aihwkit leaves the transposed read of its torch tiles to autograd
            found = AnalogMVM.matmul(
                simulator.weight.detach(), u, self._config.backward, trans=True, is_test=True
            )
        return found.detach()

    def update(self, x: torch.Tensor, d: torch.Tensor, learning_rate: float, number: int) -> None:
        """Change the weight by -learning_rate d^T x, with pulses where the device is pulsed."""
        with native.torch_seed(self._word("update", number)), torch.no_grad():
            if self._clean is not None:
                self._tile.tile.set_weights(self._clean)
                self._clean = None
            if self._in_cpp:
                self._start("update", number, 0)
                self._tile.set_learning_rate(learning_rate)
                self._tile.update(x.contiguous(), d.contiguous())
            else:
                step = (d / self._tile_scales()).T @ x
                self._tile.tile.set_weights(self._tile.tile.get_weights() - learning_rate * step)
            self._tile.post_update_step()
        self.scales = self._find_scales()

    def _tile_scales(self) -> torch.Tensor:
        found = self._tile.get_scales()
        return torch.ones(1) if found is None else found.detach().reshape(-1)


def _bound(io: Any) -> float:
    return float(io.out_bound) if 0 < io.out_bound < float("inf") else 1.0


def _spread(name: str, io: Any, normal: torch.Tensor) -> torch.Tensor:
    """A line-to-line spread of aihwkit, as its ``IOParameters`` define it, from normals."""
    values: torch.Tensor
    if name == "out_noise_values":
        values = (io.out_noise * (1.0 + io.out_noise_std * normal)).abs()
    elif name == "v_offset":
        values = (io.v_offset_std * normal).clamp(min=0.0)
    elif name == "w_asymmetry":
        values = 1.0 + io.w_read_asymmetry_dtod * normal
    elif name == "out_nonlinearity":
        spread = max(io.out_nonlinearity_std, 0.0) * normal
        values = (io.out_nonlinearity / _bound(io) * (1.0 + spread)).abs()
    else:
        raise AssertionError(f"aihwkit has drawn {name!r}, which nobody here knows")
    return values
