"""One EP gradient of the 42.75M model against backpropagation of transformers' model, in one run.

One-sided, two sweeps, line reference, held ranges, on a noisy card, at 4 x 256 tokens. Times are
taken in turn in one process; peak memory is that of a process of its own for each.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from bench_read import NOISY
from timing import interleaved, machine, write_section

import eptsim

BATCH, LENGTH = 4, 256


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Random tokens and targets, (BATCH, LENGTH) each."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 4096, (BATCH, LENGTH + 1), generator=generator)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def card() -> eptsim.Card:
    """The noisy card: 8-bit DAC, 9-bit ADC, line noise and offset on 512 x 512 tiles."""
    tiles = {"array.rows": 512, "array.columns": 512}
    return eptsim.load_card("ideal").override({**NOISY, **tiles})


def analog(folder: Path) -> Callable[[], object]:
    """One EP gradient."""
    chip = eptsim.Chip(eptsim.Olmo2.from_pretrained(folder), card(), seed=0)
    ep = eptsim.EPController(
        chip, beta=0.01, measurement="one_sided", reference="line", range_policy="held", sweeps=2
    )
    tokens, targets = batch()
    return lambda: ep.gradient(tokens, targets)


def digital(folder: Path) -> Callable[[], object]:
    """One backpropagation of transformers' model."""
    from transformers import Olmo2ForCausalLM

    model = Olmo2ForCausalLM.from_pretrained(folder, attn_implementation="sdpa")
    tokens, targets = batch()

    def step() -> None:
        model.zero_grad(set_to_none=True)
        logits = model(input_ids=tokens, use_cache=False).logits
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()

    return step


def resident_peak() -> float:
    """Peak resident memory of this process since it was started, MiB (Linux).

    Not getrusage: its maximum is inherited from the process that started this one.
    """
    found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise SystemExit("peak memory needs /proc/self/status")
    return int(found[1]) / 1024


def peak(which: str, folder: Path) -> float:
    """Peak resident memory, MiB, of a process that does ``which`` twice."""
    command = [sys.executable, __file__, "--peak", which, "--folder", str(folder)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Time, weigh, print and record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peak", choices=("nothing", "analog", "digital"))
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    if arguments.peak:
        if arguments.peak == "nothing":
            import transformers

            transformers.Olmo2ForCausalLM  # noqa: B018 - what both need in memory before a model
        else:
            run = (analog if arguments.peak == "analog" else digital)(arguments.folder)
            run()
            run()
        print(resident_peak())
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        eptsim.Olmo2(eptsim.Olmo2Shape.paper(4096), seed=0).save_pretrained(folder)
        memory = {which: peak(which, folder) for which in ("nothing", "analog", "digital")}
        a, b, ratio = interleaved(analog(folder), digital(folder), repeats=3, warmup=1)
    write_section(
        "One EP gradient of the 42.75M model against backpropagation",
        f"`python benchmarks/bench_gradient.py`: one-sided, two sweeps, noisy card (8-bit DAC, "
        f"9-bit ADC, line noise, offset, 512 x 512 tiles), {BATCH} x {LENGTH} tokens, float32; "
        f"transformers' Olmo2ForCausalLM with sdpa attention. Median of 3 in turn; peak resident "
        f"memory of a process of its own ({memory['nothing']:.0f} MiB of it imports).\n\n"
        f"{machine()}\n\n"
        "| | EP on the chip | backpropagation | ratio |\n|---|---|---|---|\n"
        f"| time | {a:.2f} s | {b:.2f} s | {ratio:.2f} |\n"
        f"| peak memory | {memory['analog']:.0f} MiB | {memory['digital']:.0f} MiB | "
        f"{memory['analog'] / memory['digital']:.2f} |",
    )


if __name__ == "__main__":
    main()
