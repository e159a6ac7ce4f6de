"""A model that has learnt something, to measure on: trained once, then found again."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eptsim.base.errors import CheckpointError, InputError
from eptsim.olmo2.checkpoint import WEIGHTS_FILE
from eptsim.olmo2.corpus import Corpus
from eptsim.olmo2.model import Olmo2
from eptsim.olmo2.shape import Olmo2Shape
from eptsim.olmo2.tokenizer import TextTokenizer
from eptsim.results.store import is_done, result_path, write_result
from eptsim.results.variable import Variable
from eptsim.results.views import open_results
from eptsim.studies.bench import model_sha256
from eptsim.train.digital import StepRecord, TrainHistory, train_digital


@dataclass(frozen=True)
class Pretraining:
    """Settings of a digital training run; see :func:`eptsim.train.digital.train_digital`."""

    shape: Olmo2Shape
    steps: int
    batch_size: int
    length: int
    learning_rate: float
    seed: int = 0


@dataclass(frozen=True)
class Pretrained:
    """A trained model, the result file of its training, and whether both were there before."""

    model: Olmo2
    path: Path
    resumed: bool


def pretraining_settings(pretraining: Pretraining, corpus: Corpus) -> dict[str, Any]:
    """Return all that decides the trained weights: the task's identity."""
    return {
        "kind": "digital training",
        "version": 1,
        **asdict(pretraining),
        "text": corpus.source,
        "text_sha256": corpus.sha256,
    }


def pretrain(
    pretraining: Pretraining,
    corpus: Corpus,
    tokenizer: TextTokenizer,
    model_folder: str | os.PathLike[str],
    results_folder: str | os.PathLike[str],
    on_step: Callable[[StepRecord], None] | None = None,
    *,
    fresh: bool = False,
) -> Pretrained:
    """Train a model into ``model_folder``, unless the same training left its weights there.

    The folder gets ``config.json``, ``model.safetensors`` and ``tokenizer.json``; the result file,
    written last, holds the loss of every step and the hash of the weights.

    Raises
    ------
    InputError
        The folder holds a model but ``results_folder`` no result: eptsim did not make it, and it
        is left alone. Or as ``train_digital``.
    CheckpointError, ResultsError
        A folder that cannot be written.
    """
    folder, results = Path(model_folder), Path(results_folder)
    settings = pretraining_settings(pretraining, corpus)
    if not fresh and is_done(results, settings):
        path = result_path(results, settings)
        model = _open(folder, str(open_results(path).attrs["weights_sha256"]))
        if model is not None:
            return Pretrained(model, path, resumed=True)
    if (folder / WEIGHTS_FILE).exists() and not any(results.glob("*.h5")):
        raise InputError(
            f"{folder}: found a model that eptsim did not train here; it is left alone. Allowed: a"
            " folder without one."
        )
    model = Olmo2(pretraining.shape, pretraining.seed)
    history = train_digital(
        model, corpus, pretraining.steps, pretraining.batch_size, pretraining.length,
        pretraining.learning_rate, pretraining.seed, on_step,
    )
    path = result_path(results, settings)
    results.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save(folder)
    attributes = {"title": "eptsim digital training", "weights_sha256": model_sha256(model)}
    write_result(
        results, settings, _variables(history, corpus, model), _coords(history), attributes,
        seed=pretraining.seed,
    )
    return Pretrained(model, path, resumed=False)


def _open(folder: Path, sha256: str) -> Olmo2 | None:
    """The model in ``folder`` if its weights have this hash."""
    try:
        model = Olmo2.from_pretrained(folder)
        TextTokenizer.load(folder)
    except (CheckpointError, InputError):
        return None
    return model if model_sha256(model) == sha256 else None


def _variables(history: TrainHistory, corpus: Corpus, model: Olmo2) -> dict[str, Variable]:
    records = history.records
    return {
        "loss": Variable(
            np.array([r.loss for r in records]), ("step",), "nat",
            "mean cross-entropy of the step's batch, per token",
        ),
        "learning_rate": Variable(
            np.array([r.learning_rate for r in records]), ("step",), "1", "learning rate"
        ),
        "gradient_norm": Variable(
            np.array([r.gradient_norm for r in records]), ("step",), "1", "norm before clipping"
        ),
        "validation_before": Variable(
            np.array(history.validation_before), (), "nat", "validation loss before training"
        ),
        "validation_after": Variable(
            np.array(history.validation_after), (), "nat", "validation loss after training"
        ),
        "unigram_loss": Variable(
            np.array(corpus.unigram_loss()), (), "nat",
            "validation loss of the token frequencies alone",
        ),
        "parameters": Variable(
            np.array(model.shape.parameter_count()), (), "1", "parameters of the model"
        ),
        "wall_time_s": Variable(np.array(history.seconds), (), "s", "wall time of the steps"),
    }


def _coords(history: TrainHistory) -> dict[str, Variable]:
    steps = np.array([record.step for record in history.records])
    return {"step": Variable(steps, ("step",), "1", "optimiser step, from 1")}
