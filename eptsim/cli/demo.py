"""``eptsim demo``: train a small model, put it on a chip, see what the free phase cancels."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from eptsim.base.errors import InputError
from eptsim.cards import Card, load_card
from eptsim.cli.options import Device, Json, Seed, Set, read_settings, resolve_device
from eptsim.cli.output import console, print_json, show_note, table
from eptsim.cli.threads import wait_passively

if TYPE_CHECKING:
    import torch
    from rich.table import Table

    from eptsim.report.curves import Curve
    from eptsim.studies.bench import Bench
    from eptsim.studies.offsets import OffsetStudy, Plan
    from eptsim.studies.pretrain import Pretrained, Pretraining

STEPS, QUICK_STEPS = 300, 40
WIDTH, BLOCKS, HEADS = 128, 4, 4
VOCABULARY, LENGTH, BATCH, LEARNING_RATE = 1024, 128, 8, 3e-3
HIGHLIGHT = {"transpose": 0.02, "node": 2e-4, "forward": 0.02}
"""The amplitude that tables and sentences quote, per place where an offset enters."""


@dataclass(frozen=True)
class _Demo:
    """What was asked for."""

    out: Path
    seed: int
    card: Card
    steps: int
    chips: int
    quick: bool
    fresh: bool
    device: torch.device


def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder to write to.")] = Path("demo-out"),
    seed: Seed = 0,
    card: Annotated[str, typer.Option("--card", help="A shipped card, or a path.")] = (
        "pcm_mushroom"
    ),
    steps: Annotated[
        int | None, typer.Option("--steps", min=1, help=f"Training steps; {STEPS} by default.")
    ] = None,
    chips: Annotated[
        int | None, typer.Option("--chips", min=1, help="Chips to measure; 3 by default.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help=f"One chip, {QUICK_STEPS} steps, fewer amplitudes.")
    ] = False,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do everything anew; finished parts are kept else.")
    ] = False,
    assignments: Set = None,
    device: Device = "cpu",
    as_json: Json = False,
) -> None:
    """Train a small OLMo2, program it onto a chip, and show what the free phase cancels.

    Trains 4 blocks of width 128 on the text of Python's help system, then measures gradients by
    Equilibrium Propagation with an offset in the transpose read, on the state nodes and in the
    forward read. Run again with the same settings, it takes up what is finished.
    """
    started = time.perf_counter()
    wait_passively()
    asked = _Demo(
        out, seed, _card(card, assignments), steps or (QUICK_STEPS if quick else STEPS),
        chips or (1 if quick else 3), quick, fresh, resolve_device(device),
    )
    _make_folder(out)
    trained, bench = _train(asked)
    paths = _measure(asked, bench)
    page, found = _report(asked, trained, paths)
    if as_json:
        print_json(found)
        return
    _show(asked, found, page, trained, time.perf_counter() - started)


def _card(name: str, assignments: list[str] | None) -> Card:
    changes = {}
    for key, value in read_settings(None, assignments).items():
        if not key.startswith("card."):
            raise InputError(f"--set {key}: no such setting, allowed: card.KEY, such as"
                             " card.transpose.offset=0.01.")
        changes[key.removeprefix("card.")] = value
    return load_card(name).override(changes)


def _make_folder(out: Path) -> None:
    """Fail now, not after the training, where nothing can be written."""
    probe = out / ".eptsim-write-test"
    try:
        out.mkdir(parents=True, exist_ok=True)
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise InputError(
            f"--out {out}: cannot be written ({error.strerror}), allowed: a folder that can be."
        ) from error


def _pretraining(asked: _Demo, vocabulary: int) -> Pretraining:
    from eptsim.olmo2.shape import Olmo2Shape
    from eptsim.studies.pretrain import Pretraining

    shape = Olmo2Shape(
        vocab_size=vocabulary,
        hidden_size=WIDTH,
        num_hidden_layers=BLOCKS,
        num_attention_heads=HEADS,
        max_position_embeddings=LENGTH,
    )
    return Pretraining(shape, asked.steps, BATCH, LENGTH, LEARNING_RATE, asked.seed)


def _train(asked: _Demo) -> tuple[Pretrained, Bench]:
    from eptsim.olmo2.corpus import load_corpus
    from eptsim.studies.bench import Bench
    from eptsim.studies.pretrain import pretrain
    from eptsim.train.digital import StepRecord

    corpus, tokenizer = load_corpus(vocab_size=VOCABULARY)
    assert tokenizer is not None  # text always has one
    started = time.perf_counter()
    with _progress("{task.fields[loss]}", "{task.fields[speed]}") as bar:
        row = bar.add_task("training", total=asked.steps, loss="", speed="")

        def on_step(record: StepRecord) -> None:
            bar.update(
                row, completed=record.step, loss=f"loss {record.loss:.2f}",
                speed=f"{record.tokens_per_s:,.0f} tokens/s",
            )

        trained = pretrain(
            _pretraining(asked, corpus.vocab_size), corpus, tokenizer, asked.out / "model",
            asked.out / "results" / "training", on_step, fresh=asked.fresh,
        )
    took = "found finished" if trained.resumed else f"{time.perf_counter() - started:.0f} s"
    show_note(f"Training: {asked.steps} steps of {BATCH} x {LENGTH} tokens, {took}.")
    length = LENGTH // 2 if asked.quick else LENGTH
    tokens, targets = corpus.fixed_batch("validation", 1, length)
    model = trained.model.to(asked.device)
    return trained, Bench(model, tokens.to(asked.device), targets.to(asked.device), asked.card)


def _plan(card: Card, *, quick: bool) -> Plan:
    """The default plan with the card's own offsets among the amplitudes."""
    from eptsim.studies.offsets import DEFAULT_PLAN, ENTRIES

    plan = []
    for entry, methods, amplitudes in DEFAULT_PLAN:
        own = card.get(ENTRIES[entry])
        wanted = {0.0, HIGHLIGHT[entry]} if quick else {*amplitudes}
        if isinstance(own, float) and not quick:
            wanted.add(own)
        plan.append((entry, methods, tuple(sorted(wanted))))
    return tuple(plan)


def _study(asked: _Demo) -> OffsetStudy:
    from eptsim.studies.offsets import OffsetStudy

    seeds = tuple(range(asked.seed, asked.seed + asked.chips))
    return OffsetStudy(_plan(asked.card, quick=asked.quick), seeds)


def _measure(asked: _Demo, bench: Bench) -> list[Path]:
    from eptsim.studies.offsets import run_offsets

    paths: list[Path] = []
    resumed = 0
    started = time.perf_counter()
    folder = asked.out / "results" / "offsets"
    with _progress("{task.completed:.0f}/{task.total:.0f}", "{task.fields[what]}") as bar:
        study = _study(asked)
        total = sum(len(task.amplitudes) for task in study.tasks())
        row = bar.add_task("gradients", total=total, what="programming the chip")
        for step in run_offsets(study, bench, folder, fresh=asked.fresh):
            method = step.task.method
            what = f"{step.task.entry}: {method.measurement}, {method.reference}"
            bar.update(row, completed=step.done, what=what.replace("_", " "))
            if step.path is not None:
                paths.append(step.path)
                resumed += step.resumed
    took = time.perf_counter() - started
    again = f", {resumed} of {len(paths)} tasks found finished" if resumed else ""
    show_note(
        f"Offset study: {asked.chips} chip{'s' * (asked.chips > 1)} of card {asked.card.name},"
        f" {len(paths)} tasks, {took:.0f} s{again}."
    )
    return paths


def _report(
    asked: _Demo, trained: Pretrained, paths: Iterable[Path]
) -> tuple[Path, dict[str, object]]:
    """Write the page; return it, and what it says as plain data."""
    from eptsim.report.curves import read_curves
    from eptsim.report.demo_page import demo_page, demo_sentences
    from eptsim.report.html import write_page
    from eptsim.report.offset_page import HEADER, table_rows
    from eptsim.results.views import open_results

    curves: tuple[Curve, ...] = read_curves(paths)
    training = open_results(trained.path)
    page = write_page(asked.out / "report.html", demo_page(training, curves, HIGHLIGHT))
    rows = [dict(zip(HEADER, row, strict=True)) for row in table_rows(curves, HIGHLIGHT)]
    sentences = list(demo_sentences(training, curves, HIGHLIGHT))
    return page, {
        "table": rows,
        "sentences": sentences,
        "report": str(page),
        "training": str(trained.path),
        "results": str(asked.out / "results" / "offsets"),
        "model": str(asked.out / "model"),
    }


def _show(
    asked: _Demo, found: dict[str, object], page: Path, trained: Pretrained, seconds: float
) -> None:
    rows, sentences = found["table"], found["sentences"]
    assert isinstance(rows, list)
    assert isinstance(sentences, list)
    out = console()
    out.print()
    out.print(_table(asked, rows))
    out.print()
    for sentence in sentences:
        out.print(f"- {sentence}", markup=False)
    out.print()
    out.print(f"Done in {seconds:.0f} s. Open:", markup=False)
    for path, what in (
        (page, "the report, with figures"),
        (trained.path, "the training, HDF5"),
        (asked.out / "results" / "offsets", "the offset study, one HDF5 file per task"),
        (asked.out / "model", "the model: eptsim gradient --model, or transformers"),
    ):
        out.print(f"  {path}  {what}", markup=False, soft_wrap=True)


def _table(asked: _Demo, rows: list[dict[str, str]]) -> Table:
    """The results, a part per place; the column of refusals only where there are any."""
    columns = {
        "measurement": "measurement", "reference": "reference", "range": "range",
        "cosine at 0": "cosine\nat 0", "cosine": "cosine\nwith it",
        "error at 0": "error\nat 0", "error": "error\nwith it", "cancelled": "cancels",
    }
    if any(row["refused"] != "0" for row in rows):
        columns["refused"] = "refused"
    title = f"Gradients on {asked.chips} x {asked.card.name}, against backpropagation"
    made = table(*columns.values(), title=title)
    for column in made.columns[3:]:
        column.justify = "right"
    for column in made.columns:
        column.no_wrap = True
    made.padding = (0, 1, 0, 0)  # fits a terminal of 80 columns
    place = ""
    for row in rows:
        if row["offset in"] != place:
            place = row["offset in"]
            made.add_row(*[""] * len(columns))
            made.add_row(f"[bold]{place}, {row['amplitude']}[/bold]")
        made.add_row(*(row[name] for name in columns))
    return made


def _progress(*fields: str) -> Progress:
    from rich.console import Console

    return Progress(
        TextColumn("{task.description}"), BarColumn(), *(TextColumn(field) for field in fields),
        TimeRemainingColumn(), console=Console(stderr=True), transient=True,
    )
