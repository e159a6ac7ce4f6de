"""Pretraining: found again when finished, done again when not, never over a stranger's model."""

import numpy as np
import pytest

import eptsim
from eptsim.base.errors import InputError
from eptsim.olmo2.corpus import Corpus
from eptsim.olmo2.tokenizer import train_tokenizer
from eptsim.results.views import open_results
from eptsim.studies.bench import model_sha256
from eptsim.studies.pretrain import Pretraining, pretrain

TEXT = "abc def " * 400
TOKENIZER = train_tokenizer(TEXT, 256)
CORPUS = Corpus.from_text(TEXT, TOKENIZER)
SHAPE = eptsim.Olmo2Shape(
    vocab_size=256, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
    num_attention_heads=2,
)


def run(tmp_path, steps=3, **options):
    asked = Pretraining(SHAPE, steps, 2, 8, 1e-2)
    return pretrain(asked, CORPUS, TOKENIZER, tmp_path / "model", tmp_path / "results", **options)


def test_training_is_done_once(tmp_path):
    seen = []
    first = run(tmp_path, on_step=lambda record: seen.append(record.step))
    assert seen == [1, 2, 3] and not first.resumed
    data = open_results(first.path)
    assert data["loss"].shape == (3,) and float(data["validation_after"]) > 0
    assert data.attrs["weights_sha256"] == model_sha256(first.model)
    again = run(tmp_path, on_step=lambda record: seen.append(record.step))
    assert again.resumed and seen == [1, 2, 3]
    assert model_sha256(again.model) == model_sha256(first.model)
    assert not run(tmp_path, fresh=True).resumed


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_missing_file_means_training_again(tmp_path, name):
    before = run(tmp_path)
    (tmp_path / "model" / name).unlink()
    again = run(tmp_path)
    assert not again.resumed and model_sha256(again.model) == model_sha256(before.model)


def test_other_settings_train_again_and_back(tmp_path):
    first = run(tmp_path)
    assert not run(tmp_path, steps=4).resumed
    back = run(tmp_path)  # its result is there, but the folder holds the other model
    assert not back.resumed
    assert np.array_equal(
        back.model.get_parameter("lm_head.weight").detach(),
        first.model.get_parameter("lm_head.weight").detach(),
    )


def test_a_strangers_model_is_left_alone(tmp_path):
    eptsim.Olmo2(SHAPE, seed=5).save_pretrained(tmp_path / "model")
    with pytest.raises(InputError, match="did not train"):
        run(tmp_path)
