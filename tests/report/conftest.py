"""Results of an offset study with made-up numbers, and of a training."""

import numpy as np
import pytest

from eptsim.ep.compare import ARRAY_NAMES
from eptsim.report.curves import read_curves
from eptsim.results.store import write_result
from eptsim.results.variable import Variable
from eptsim.results.views import open_results
from eptsim.studies.offset_rows import REFUSED, Row, variables

AMPLITUDES = (0.0, 0.002, 0.02)


def row(cosine, error, shift, reason=""):
    if reason:
        cosine = error = shift = np.nan
    return Row(
        REFUSED if reason else "converged", reason, 3, 1e-5, 2.5, (cosine, error, 1.0, 0.1),
        (1 - shift, shift), np.full((2, 2), cosine), np.full((2, len(ARRAY_NAMES), 2), error),
    )


def write(folder, entry, measurement, reference, rows, seed=0, policy="held", beta=0.01):
    arrays, coords = variables(rows, AMPLITUDES[: len(rows)], 2.4)
    settings = {
        "kind": "offset study",
        "entry": entry,
        "amplitudes": list(AMPLITUDES[: len(rows)]),
        "chip_seed": seed,
        "ep": {"measurement": measurement, "reference": reference, "range_policy": policy,
               "beta": beta},
        "bench": {"card": "some<card>", "card_sha256": "c" * 64, "model_sha256": "m" * 64},
    }
    return write_result(folder, settings, arrays, coords, seed=seed)


def write_all(folder):
    """Transpose: line cancels, node in part, weight is worse and once refused; forward: none."""
    paths = []
    for seed in (0, 1):
        s = 0.01 * seed
        lost = [row(0.95 - s, 0.3, 0.0), row(0.9, 0.5, 0.3), row(0.2, 3.0 + s, 2.0)]
        good = [row(0.95 - s, 0.3, 0.0), row(0.95, 0.3, 0.0), row(0.95, 0.3, 0.02)]
        part = [row(0.95, 0.3, 0.0), row(0.95, 0.3, 0.1), row(0.6, 1.0, 1.0)]
        worse = [row(0.95, 0.3, 0.0), row(0.9, 0.5, 0.5), row(0.1, 5.0, 4.0)]
        broken = [*worse[:2], row(0, 0, 0, "nudged phase: not <settled>")]
        paths += [
            write(folder, "transpose", "one_sided", "line", good, seed),
            write(folder, "transpose", "one_sided", "none", lost, seed),
            write(folder, "transpose", "one_sided", "node", part, seed),
            write(folder, "transpose", "one_sided", "weight", broken if seed else worse, seed),
            write(folder, "transpose", "one_sided", "weight", lost, seed, "per_vector"),
            write(folder, "transpose", "centred", "none", good, seed),
            write(folder, "transpose", "predictive_coding", "none", lost, seed, beta=1.0),
            write(folder, "forward", "one_sided", "none", lost, seed),
            write(folder, "forward", "one_sided", "line", lost, seed),
        ]
    return paths


@pytest.fixture(scope="session")
def paths(tmp_path_factory):
    return write_all(tmp_path_factory.mktemp("offsets"))


@pytest.fixture(scope="session")
def curves(paths):
    return read_curves(paths)


@pytest.fixture(scope="session")
def training(tmp_path_factory):
    steps = np.arange(1, 11)
    arrays = {
        "loss": Variable(7.0 - 0.2 * steps, ("step",), "nat", "loss"),
        "validation_before": Variable(np.array(7.0), (), "nat", "before"),
        "validation_after": Variable(np.array(5.0), (), "nat", "after"),
        "unigram_loss": Variable(np.array(5.5), (), "nat", "unigram"),
        "parameters": Variable(np.array(1234567), (), "1", "parameters"),
    }
    settings = {
        "kind": "digital training", "steps": 10, "batch_size": 8, "length": 128,
        "learning_rate": 0.003, "seed": 0, "text": "text.txt", "text_sha256": "t" * 64,
        "shape": {"num_hidden_layers": 4, "hidden_size": 128},
    }
    coords = {"step": Variable(steps, ("step",), "1", "step")}
    return open_results(write_result(tmp_path_factory.mktemp("training"), settings, arrays, coords))
