"""One crossbar read against the bare torch matmul of the same shapes, in one run.

256 vectors on a 512 -> 1536 array: 8-bit DAC, 9-bit ADC, line noise and offset, both directions;
and the ideal card. The two are timed in turn, A B A B, and the ratio of the medians is written to
RESULTS.md.
"""

from __future__ import annotations

import torch
from timing import interleaved, machine, write_section

import eptsim

VECTORS, INNER, OUT = 256, 512, 1536
NOISY = {
    f"{direction}.{key}": value
    for direction in ("forward", "transpose")
    for key, value in {
        "dac_bits": 8,
        "adc_bits": 9,
        "line_noise": 1e-3,
        "offset": 0.01,
        "output_range": 12.0,
    }.items()
}


def main() -> None:
    """Time, print and record."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(OUT, INNER, generator=generator)
    x = torch.randn(VECTORS, INNER, generator=generator)
    d = torch.randn(VECTORS, OUT, generator=generator)
    ideal = eptsim.load_card("ideal")
    rows = []
    for title, card in (
        ("ideal card", ideal),
        ("8-bit DAC, 9-bit ADC, line noise, offset", ideal.override(NOISY)),
        (
            "the same with proportional cell noise",
            ideal.override(
                {**NOISY, "cell.read_noise.law": "proportional", "cell.read_noise.sigma": 0.02}
            ),
        ),
    ):
        xbar = eptsim.Crossbar(weight, card, seed=0)
        for name, analog, plain in (
            ("forward", lambda x=x, b=xbar: b.read(x), lambda: x @ weight.T),
            ("transpose", lambda d=d, b=xbar: b.read_transpose(d), lambda: d @ weight),
        ):
            a, b, ratio = interleaved(analog, plain, repeats=300)
            rows.append(
                f"| {title} | {name} | {b * 1e3:.2f} ms | {a * 1e3:.2f} ms | {ratio:.2f} |"
            )
    write_section(
        "One read against the bare matmul",
        f"`python benchmarks/bench_read.py`: {VECTORS} vectors, {INNER} -> {OUT}, float32, one "
        f"tile row, range per vector. Median of 300 runs in turn.\n\n{machine()}\n\n"
        "| card | direction | matmul | read | ratio |\n|---|---|---|---|---|\n" + "\n".join(rows),
    )


if __name__ == "__main__":
    main()
