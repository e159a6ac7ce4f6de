"""The demo's page: the model that was trained, and the offset study on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import xarray as xr

from eptsim.report.curves import Curve
from eptsim.report.figures import Panel, Series, draw
from eptsim.report.html import Figure, Page, Section
from eptsim.report.offset_page import refusal_table, result_table, sections
from eptsim.report.verdicts import offset_sentences
from eptsim.results.views import settings_of


def demo_sentences(
    training: xr.Dataset, curves: Sequence[Curve], amplitudes: Mapping[str, float]
) -> tuple[str, ...]:
    """The demo in plain sentences, computed from its results."""
    return (_learnt(training), _on_chip(curves), *offset_sentences(curves, dict(amplitudes)))


def demo_page(
    training: xr.Dataset, curves: Sequence[Curve], amplitudes: Mapping[str, float]
) -> Page:
    """The whole page."""
    card = str(settings_of(curves[0].first)["bench"]["card"])
    tables = [result_table(curves, amplitudes)]
    refused = refusal_table(curves)
    if refused is not None:
        tables.append(refused)
    training_part = Section(
        "The model",
        ("Trained by digital backpropagation, then programmed onto the chip.",),
        (),
        (Figure(
            draw(_loss_panel(training), "training"),
            "Cross-entropy of each step's batch; the two levels are on text kept out of it.",
        ),),
    )
    return Page(
        f"What the free phase cancels, on the {card} chip",
        demo_sentences(training, curves, amplitudes),
        (Section("In numbers", (), (), (), tuple(tables)), *sections(curves, amplitudes),
         training_part),
        _settings(training, curves),
    )


def _learnt(training: xr.Dataset) -> str:
    shape = settings_of(training)["shape"]
    after, before = (float(training[f"validation_{when}"]) for when in ("after", "before"))
    unigram = float(training["unigram_loss"])
    verdict = "better" if after < unigram else "no better"
    return (
        f"The model: {shape['num_hidden_layers']} OLMo2 blocks of width {shape['hidden_size']},"
        f" {int(training['parameters']):,} parameters, trained for {training.sizes['step']} steps."
        f" On text it has not seen it reaches {after:.2f} nats per token, from {before:.2f}:"
        f" {verdict} than token frequencies alone ({unigram:.2f})."
    )


def _on_chip(curves: Sequence[Curve]) -> str:
    digital = float(curves[0].data["backprop_loss"].values.flat[0])
    chip = float(np.median([c.at("loss", 0.0) for c in curves]))
    return (
        f"On the chip, every offset at 0, the measured text costs {chip:.3f} nats per token;"
        f" digitally, {digital:.3f}."
    )


def _loss_panel(training: xr.Dataset) -> Panel:
    steps = tuple(float(step) for step in training["step"].values)
    loss = np.asarray(training["loss"].values, dtype=np.float64)
    return Panel(
        "Training loss", "step", "cross-entropy (nats per token)",
        (Series("training", 0, steps, tuple(loss), markers=False),),
        levels=(
            (float(training["unigram_loss"]), "token\nfrequencies\nalone"),
            (float(training["validation_after"]), "unseen\ntext, after\ntraining"),
        ),
    )


def _settings(training: xr.Dataset, curves: Sequence[Curve]) -> tuple[tuple[str, str], ...]:
    """What made the results, from their files."""
    study = curves[0].first
    bench, trained = settings_of(study)["bench"], settings_of(training)
    rows = {
        "card": f"{bench['card']} (sha256 {str(bench['card_sha256'])[:16]})",
        "text": f"{trained['text']} (sha256 {str(trained['text_sha256'])[:16]})",
        "model": f"sha256 {str(bench['model_sha256'])[:16]}",
        "training": ", ".join(
            f"{name} {trained[name]}"
            for name in ("steps", "batch_size", "length", "learning_rate", "seed")
        ),
        "chips": f"{curves[0].seeds}",
    }
    for name, value in study.attrs.items():
        if name.endswith("_version") or name == "git_commit":
            rows[str(name).replace("_", " ")] = str(value)
    return tuple(rows.items())
