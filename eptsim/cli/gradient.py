"""``eptsim gradient``: one measurement on any model, card and text, against backpropagation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import BaseModel, ConfigDict, Field

from eptsim.base.errors import InputError
from eptsim.cli.options import (
    Config,
    Device,
    Json,
    Seed,
    Set,
    Settings,
    build,
    read_settings,
    resolve_device,
)
from eptsim.cli.output import console, print_json, progress, show_note, table
from eptsim.cli.threads import wait_passively

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from eptsim.cards import Card
    from eptsim.chip import Chip
    from eptsim.ep.compare import Comparison, Row
    from eptsim.ep.gradient import Gradient
    from eptsim.studies.bench import Bench

NO_MODEL = (
    "--model: found none, allowed: a model folder in Hugging Face's layout. `eptsim demo --quick`"
    " trains one in demo-out/model within a minute."
)


_EXACT = 1e-5
"""Reconstruction error below which nothing is said of it: rounding."""

_Measurement = Annotated[
    str | None, typer.Option(help="one_sided, centred (default), frozen or predictive_coding.")
]
_Reference = Annotated[
    str | None, typer.Option(help="none, weight, node, line, line+weight or line+node.")
]
_RangePolicy = Annotated[str | None, typer.Option(help="held (default), per_vector or fixed.")]


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class EpSettings(_Closed):
    """As for :class:`eptsim.EPController`, which also checks them."""

    beta: float | None = None
    measurement: str = "centred"
    reference: str | None = None
    range_policy: str = "held"
    sweeps: int | None = None
    tolerance: float | None = None
    max_sweeps: int = 50
    reads: int = 1


class TextSettings(_Closed):
    """Which tokens to measure on."""

    file: str | None = None
    field: str | None = None
    tokenizer: str | None = None
    batch: int = 1
    length: int | None = None


class GradientSettings(_Closed):
    """Every setting of the verb; ``card`` holds its name or path, and overrides by dotted key."""

    model: str | None = None
    dtype: Literal["float32", "float64"] = "float32"
    card: dict[str, object] = Field(default_factory=dict)
    ep: EpSettings = Field(default_factory=EpSettings)
    text: TextSettings = Field(default_factory=TextSettings)


CardName = Annotated[
    str | None, typer.Option("--card", help="A shipped card, or a path; ideal by default.")
]
TextFile = Annotated[
    str | None, typer.Option("--text", help=".txt, .jsonl or .bin; Python's help texts by default.")
]
TokenizerFile = Annotated[
    str | None, typer.Option("--tokenizer", help="tokenizer.json; the model folder's by default.")
]


def gradient(
    model: Annotated[str | None, typer.Option("--model", help="Model folder.")] = None,
    card: CardName = None,
    text: TextFile = None,
    tokenizer: TokenizerFile = None,
    batch: Annotated[int | None, typer.Option("--batch", help="Sequences; 1 by default.")] = None,
    length: Annotated[
        int | None, typer.Option("--length", help="Tokens a sequence; 128 by default, or fewer.")
    ] = None,
    measurement: _Measurement = None,
    reference: _Reference = None,
    range_policy: _RangePolicy = None,
    beta: Annotated[float | None, typer.Option(help="Nudge; 0.01 by default.")] = None,
    sweeps: Annotated[int | None, typer.Option(help="A fixed number of sweeps.")] = None,
    tolerance: Annotated[float | None, typer.Option(help="Residual to settle to.")] = None,
    reads: Annotated[int | None, typer.Option(help="Measurements averaged.")] = None,
    seed: Seed = 0,
    config: Config = None,
    assignments: Set = None,
    device: Device = "cpu",
    arrays: Annotated[bool, typer.Option("--arrays", help="Also a row per array.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for an HDF5 file of the result.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Measure one gradient on a chip and compare it with backpropagation.

    Prints, per block, how far the gradient is from digital backpropagation on the model's own
    weights, how each phase settled, and the loss. Exit code 3: a phase did not settle.
    """
    wait_passively()
    from eptsim.ep.compare import compare

    flags = {
        "model": model, "card.name": card, "text.file": text, "text.tokenizer": tokenizer,
        "text.batch": batch, "text.length": length, "ep.measurement": measurement,
        "ep.reference": reference, "ep.range_policy": range_policy, "ep.beta": beta,
        "ep.sweeps": sweeps, "ep.tolerance": tolerance, "ep.reads": reads,
    }
    settings = _settings(config, assignments, flags)
    bench = _bench(settings, device)
    found = _measured(settings, bench, seed)
    against = compare(found, bench.exact)
    report = _report(settings, bench, found, against, seed)
    if out is not None:
        report["result"] = str(_write(out, settings, bench, found, seed))
    if as_json:
        print_json(report)
        return
    _show(report, found, against, arrays=arrays)


def _settings(
    config: Path | None, assignments: list[str] | None, flags: Mapping[str, object]
) -> GradientSettings:
    """Flags win over --set, which wins over the file."""
    given: Settings = read_settings(config, assignments)
    given.update({key: value for key, value in flags.items() if value is not None})
    settings = build(GradientSettings, given)
    if settings.model is None:
        raise InputError(NO_MODEL)
    _check_ep(settings)
    return settings


def _check_ep(settings: GradientSettings) -> None:
    """Refuse a bad measurement before a chip is programmed."""
    import torch

    from eptsim.ep.options import Options

    ep = settings.ep
    Options.checked(
        ep.beta, ep.measurement, ep.reference, ep.range_policy, ep.sweeps, ep.tolerance,
        ep.max_sweeps, ep.reads, torch.float32,
    )


def _card(settings: GradientSettings) -> Card:
    from eptsim.cards import load_card

    changes = dict(settings.card)
    name = changes.pop("name", "ideal")
    if not isinstance(name, str):
        raise InputError(f"setting 'card.name': found {name!r}, allowed: a card's name or path.")
    return load_card(name).override(changes)


def _bench(settings: GradientSettings, device: str) -> Bench:
    import torch

    from eptsim.olmo2.model import Olmo2
    from eptsim.studies.bench import Bench, windows

    place = resolve_device(device)
    card = _card(settings)
    dtype = torch.float64 if settings.dtype == "float64" else torch.float32
    model = Olmo2.from_pretrained(str(settings.model), dtype).to(place)
    ids, source = _tokens(settings, model.shape.vocab_size)
    length = settings.text.length
    if length is None:
        length = min(128, model.shape.max_position_embeddings)
    tokens, targets = windows(ids, settings.text.batch, length, source)
    return Bench(model, tokens.to(place), targets.to(place), card)


def _tokens(
    settings: GradientSettings, vocab_size: int
) -> tuple[npt.NDArray[np.integer[Any]], str]:
    """Tokens (N,) of the text, and the text's name."""
    from eptsim.olmo2.sources import TEXT_SUFFIXES, load_text, load_tokens, source_name
    from eptsim.olmo2.tokenizer import FILE_NAME, TextTokenizer

    text = settings.text
    name = source_name(text.file)
    if text.file is not None and Path(text.file).suffix.lower() not in TEXT_SUFFIXES:
        if text.field is not None:
            raise InputError(f"{text.file}: found field {text.field!r}, allowed only for .jsonl.")
        return load_tokens(text.file, vocab_size), name
    place = Path(text.tokenizer) if text.tokenizer else Path(str(settings.model)) / FILE_NAME
    content = load_text(text.file, text.field)
    if not text.tokenizer and not place.is_file():
        raise InputError(
            f"--model {settings.model}: found no {FILE_NAME} in it to read text with, allowed:"
            " --tokenizer FILE, or --text with a .bin file of uint16 tokens."
        )
    tokenizer = TextTokenizer.load(place)
    if tokenizer.vocab_size > vocab_size:
        raise InputError(
            f"tokenizer {place}: found {tokenizer.vocab_size} tokens, allowed: at most"
            f" {vocab_size}, the model's vocabulary."
        )
    return tokenizer.encode(content), name


def _measured(settings: GradientSettings, bench: Bench, seed: int) -> Gradient:
    from eptsim.chip import Chip
    from eptsim.ep.controller import EPController

    ep = settings.ep
    with progress() as bar:
        task = bar.add_task("programming", total=None)
        chip = Chip(
            bench.model, bench.card, seed,
            on_program=lambda done, total: bar.update(task, completed=done, total=total),
        )
    controller = EPController(
        chip, ep.beta, ep.measurement, ep.reference, ep.range_policy, sweeps=ep.sweeps,
        tolerance=ep.tolerance, max_sweeps=ep.max_sweeps, reads=ep.reads,
    )
    show_note(
        f"{len(chip.arrays)} arrays of card {bench.card.name} programmed{_programming(chip)};"
        f" measuring on {bench.tokens.shape[0]} x {bench.tokens.shape[1]} tokens ..."
    )
    return controller.gradient(bench.tokens, bench.targets)


def _programming(chip: Chip) -> str:
    """What programming came to, in words; empty where every cell holds its target."""
    from eptsim.crossbar.crossbar import Crossbar

    records = [array.record for array in chip.arrays.values() if isinstance(array, Crossbar)]
    cells = sum(record.cells for record in records)
    error = max((record.error for record in records), default=0.0)
    if error < _EXACT:
        return ""
    words = [f"reconstruction error up to {error:.2g}"]
    for count, what in (
        (sum(record.stuck for record in records), "stuck"),
        (sum(record.unverified for record in records), "outside the verify tolerance"),
    ):
        if count:
            words.append(f"{count / cells:.2g} of the cells {what}")
    return f" ({', '.join(words)})"


def _report(
    settings: GradientSettings, bench: Bench, found: Gradient, against: Comparison, seed: int
) -> dict[str, object]:
    """All that was found, as plain data."""
    return {
        "model": settings.model,
        "card": bench.card.name,
        "seed": seed,
        "tokens": list(bench.tokens.shape),
        "settings": {key: _finite(value) for key, value in found.settings.items()},
        "loss_chip": found.loss,
        "loss_digital": bench.exact.loss,
        "total": _as_dict(against.total),
        "blocks": [_as_dict(row) for row in against.select("block")],
        "arrays": [_as_dict(row) for row in against.select("array")],
        "digital": [_as_dict(row) for row in against.select("digital")],
        "phases": [
            {
                "name": phase.name,
                "beta": phase.beta,
                "outcome": phase.outcome.name.lower(),
                "meaning": phase.outcome.value,
                "sweeps": phase.sweeps,
                "residual": _finite(phase.residual),
                "floor": phase.floor,
                "energy": phase.energy,
                "cross_entropy": phase.cross_entropy,
            }
            for phase in found.phases
        ],
    }


def _finite(value: object) -> object:
    """None for what JSON cannot say: an infinite tolerance or error."""
    infinite = isinstance(value, float) and not math.isfinite(value)
    return None if infinite else value


def _as_dict(row: Row) -> dict[str, object]:
    return {
        "block": None if row.block is None else row.block + 1,
        "name": row.name,
        "cosine": row.cosine,
        "relative_error": _finite(row.relative_error),
        "norm_ratio": _finite(row.norm_ratio),
        "sign_disagreement": row.sign_disagreement,
    }


def _write(
    out: Path, settings: GradientSettings, bench: Bench, found: Gradient, seed: int
) -> Path:
    from eptsim.results.store import write_result
    from eptsim.studies.offset_rows import measured_row, variables

    task = {
        "kind": "gradient",
        "version": 1,
        "ep": {key: _finite(value) for key, value in found.settings.items()},
        "chip_seed": seed,
        "dtype": settings.dtype,
        "bench": bench.settings,
    }
    arrays, coords = variables([measured_row(found, bench.exact, None)], (0.0,), bench.exact.loss)
    return write_result(
        out, task, arrays, coords, {"title": "eptsim gradient"}, seed=seed,
        card_text=bench.card.text(),
    )


def _show(
    report: Mapping[str, Any], found: Gradient, against: Comparison, *, arrays: bool
) -> None:
    out = console()
    settings = report["settings"]
    out.print(
        f"{settings['measurement']}, reference {settings['reference']}, range"
        f" {settings['range_policy']}, beta {settings['beta']:g}, {settings['reads']} read"
        f"{'s' * (settings['reads'] > 1)}; against backpropagation on the model:",
        markup=False,
    )
    if settings["measurement"] == "frozen":
        out.print("(the frozen measurement is backpropagation in local variables)", markup=False)
    made = table("block", "array", "cosine", "rel. error", "norm ratio", "sign dis.")
    scopes = ("array", "block", "all") if arrays else ("block", "all")
    for row in against.rows:
        if row.scope in scopes:
            block = "all" if row.block is None else str(row.block + 1)
            made.add_row(
                block, row.name, f"{row.cosine:.6f}", f"{row.relative_error:.3e}",
                f"{row.norm_ratio:.4f}", f"{row.sign_disagreement:.4f}",
            )
    out.print(made)
    out.print()
    phases = table("phase", "beta", "sweeps", "residual", "energy", "CE (nat)", "outcome")
    for phase in found.phases:
        phases.add_row(
            phase.name, f"{phase.beta:g}", str(phase.sweeps), f"{phase.residual:.2e}",
            f"{phase.energy:.3e}", f"{phase.cross_entropy:.4f}", phase.outcome.value,
        )
    out.print(phases)
    out.print()
    out.print(
        f"Loss: {report['loss_chip']:.4f} nats per token on the chip,"
        f" {report['loss_digital']:.4f} digitally."
    )
    if "result" in report:
        out.print(f"Written to {report['result']}", markup=False, soft_wrap=True)
