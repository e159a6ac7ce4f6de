"""A model on crossbars: the same logits where nothing is wrong, exact counts, frozen forces."""

import numpy as np
import pytest
import torch
from scipy import stats

from eptsim.base.errors import InputError
from eptsim.base.ledger import DigitalKey, ReadKey
from eptsim.cards import load_card
from eptsim.chip import Chip, array_path
from eptsim.digital.formats import quantise
from eptsim.olmo2.block import ARRAYS
from eptsim.olmo2.model import Olmo2
from eptsim.olmo2.shape import Olmo2Shape

IDEAL = load_card("ideal")
SHAPE = Olmo2Shape(
    vocab_size=50, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2
)
TOKENS = torch.randint(50, (2, 5), generator=torch.Generator().manual_seed(0))
FLAWS = {
    "cell.programming.sigma": 0.02, "cell.read_noise.law": "proportional",
    "cell.read_noise.sigma": 0.02, "array.rows": 10, "array.columns": 7, "node.offset": 0.01,
}  # fmt: skip
LINES = {"dac_bits": 8, "adc_bits": 9, "offset": 0.01, "gain": 0.01, "line_noise": 1e-3}
FLAWS |= {f"{d}.{k}": v for d in ("forward", "transpose") for k, v in LINES.items()}


def model(dtype=torch.float32, shape=SHAPE, seed=1):
    return Olmo2(shape, seed=seed, dtype=dtype)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-13)])
@pytest.mark.parametrize("policy", ["per_vector", "fixed", "held"])
def test_on_the_ideal_card_the_logits_are_the_model_s(dtype, tolerance, policy):
    network = model(dtype)
    got, want = Chip(network, IDEAL).logits(TOKENS, policy), network(TOKENS)
    assert got.dtype == dtype
    assert not got.requires_grad
    assert (got - want).abs().max() <= tolerance * want.abs().max()


def test_the_arrays_hold_the_seven_matrices_of_each_block():
    network = model(torch.float64)
    chip = Chip(network, IDEAL)
    assert list(chip.arrays) == [f"layers.{n}.{a}" for n in range(2) for a in ARRAYS]
    state = network.state_dict()
    for n in range(2):
        prefix = f"model.layers.{n}"
        attention = [state[f"{prefix}.self_attn.{p}_proj.weight"] for p in "qkv"]
        want = {
            "qkv": torch.cat(attention), "proj": state[f"{prefix}.self_attn.o_proj.weight"],
            "w1": state[f"{prefix}.mlp.gate_proj.weight"],
            "w3": state[f"{prefix}.mlp.up_proj.weight"],
            "w2": state[f"{prefix}.mlp.down_proj.weight"],
        }  # fmt: skip
        for array, weight in want.items():
            torch.testing.assert_close(chip.arrays[array_path(n, array)].weight(), weight)


def test_later_changes_of_the_model_do_not_reach_the_arrays():
    network = model()
    chip = Chip(network, IDEAL)
    before = chip.logits(TOKENS)
    with torch.no_grad():
        network.get_parameter("model.layers.0.mlp.up_proj.weight").zero_()
    assert torch.equal(chip.logits(TOKENS), before)
    assert not torch.equal(network(TOKENS), before)


@pytest.mark.parametrize("path", [array_path(n, a) for n in range(2) for a in ARRAYS])
def test_every_array_reaches_the_logits(path):
    chip = Chip(model(), IDEAL)
    before = chip.logits(TOKENS)
    other = Chip(model(seed=2), IDEAL)
    chip.arrays[path] = other.arrays[path]
    assert not torch.equal(chip.logits(TOKENS), before)


# array -> (in, out, row tiles of 10, column tiles of 7), written out for C = 16, h_ff = 24
TILED = {
    "qkv": (16, 48, 2, 7), "proj": (16, 16, 2, 3), "w1": (16, 24, 2, 4), "w3": (16, 24, 2, 4),
    "w2": (24, 16, 3, 3),
}  # fmt: skip


def test_the_ledger_counts_shapes():
    chip = Chip(model(), IDEAL.override({"array.rows": 10, "array.columns": 7}))
    chip.logits(TOKENS)
    want = {ReadKey(array_path(n, a), "forward", "inference"): 10 for n in range(2) for a in TILED}
    assert chip.ledger.reads == want
    for array, (inner, out, row_tiles, column_tiles) in TILED.items():
        key = ReadKey(array_path(1, array), "forward", "inference")
        assert chip.ledger.dac_conversions[key] == 10 * inner * column_tiles
        assert chip.ledger.adc_conversions[key] == 10 * out * row_tiles
    # 2 layers, 2 sequences of 5 tokens, 15 causal pairs each, 2 heads
    digital = {
        "attention_mac": 2 * 2 * 2 * 15 * 16, "softmax": 2 * 2 * 15 * 2 + 10 * 50,
        "norm": 2 * 4 * 10 * 16 + 10 * 16, "rope": 2 * 2 * 10 * 16, "silu": 2 * 10 * 24,
        "elementwise": 2 * 10 * (24 + 2 * 16), "readout_mac": 10 * 16 * 50,
    }  # fmt: skip
    assert chip.ledger.digital == {DigitalKey(k, "inference"): v for k, v in digital.items()}


def test_the_ledger_counts_transposed_reads_and_references():
    chip = Chip(model(), IDEAL.override(FLAWS))
    trip = chip.new_pass("nudged", "per_vector")
    chip.read_transpose(0, "w2", torch.ones(3, 4, 16), trip)
    key = ReadKey("layers.0.w2", "transpose", "nudged")
    assert chip.ledger.reads[key] == 12
    assert chip.ledger.dac_conversions[key] == 12 * 16 * 3
    assert chip.ledger.adc_conversions[key] == 12 * 24 * 3
    chip.line_references(6, "free")
    for layer in range(2):
        for array, (inner, _, _, column_tiles) in TILED.items():
            key = ReadKey(array_path(layer, array), "transpose", "free")
            assert chip.ledger.reads[key] == 6
            assert chip.ledger.adc_conversions[key] == 6 * inner * column_tiles


def test_line_references():
    chip = Chip(model(), IDEAL.override({"transpose.offset": 0.02}))
    references = chip.line_references(3, "free")
    assert set(references) == set(chip.arrays)
    for path, reference in references.items():
        assert torch.equal(reference, chip.arrays[path].stage("transpose").offset)
    quiet = Chip(model(), IDEAL.override({"forward.offset": 0.02}))
    assert quiet.quiet_transpose
    assert quiet.line_references(3, "free") == {}
    assert not chip.quiet_transpose


def test_a_pass_uses_its_line_reference():
    chip = Chip(model(torch.float64), IDEAL.override({"transpose.offset": 0.02}))
    d = torch.randn(2, 5, 16, dtype=torch.float64)
    trip = chip.new_pass("nudged", "per_vector", chip.line_references(1, "free"))
    want = d @ chip.arrays["layers.1.proj"].weight()
    torch.testing.assert_close(chip.read_transpose(1, "proj", d, trip), want)
    bare = chip.read_transpose(1, "proj", d, chip.new_pass("nudged", "per_vector"))
    assert (bare - want).norm() > 0.01 * want.norm()


def test_the_same_seed_is_the_same_chip_and_the_same_noise():
    card = IDEAL.override(FLAWS)
    first, second, other = (Chip(model(), card, seed=s) for s in (5, 5, 6))
    one = first.logits(TOKENS)
    assert torch.equal(one, second.logits(TOKENS))
    assert not torch.equal(one, other.logits(TOKENS))
    assert not torch.equal(one, first.logits(TOKENS))  # a later pass has noise of its own
    for a, b in zip(first.node_force, second.node_force, strict=True):
        assert torch.equal(a, b)
    assert first.noisy
    assert not Chip(model(), IDEAL.override({"forward.offset": 0.1})).noisy


def test_arrays_have_flaws_of_their_own():
    chip = Chip(model(), IDEAL.override({"forward.offset": 0.1}))
    w1, w3 = (chip.arrays[f"layers.0.{a}"].stage("forward").offset for a in ("w1", "w3"))
    upper = chip.arrays["layers.1.w1"].stage("forward").offset
    assert not torch.equal(w1, w3)
    assert not torch.equal(w1, upper)


def test_a_sequence_does_not_depend_on_its_batch():
    """Without noise nothing is per batch: ranges belong to vectors or arrays."""
    quiet = {"cell.read_noise.law": "none", "cell.read_noise.sigma": 0.0}
    quiet |= {f"{d}.line_noise": 0.0 for d in ("forward", "transpose")}
    chip = Chip(model(), IDEAL.override(FLAWS | quiet))
    together = chip.logits(TOKENS)
    torch.testing.assert_close(together[1:], chip.logits(TOKENS[1:]), rtol=0, atol=2e-5)


def test_node_force_has_the_stated_spread():
    """Standard deviation: node.offset times the nominal root mean square of each node."""
    wide = Olmo2Shape(
        vocab_size=20, hidden_size=1024, intermediate_size=8, num_hidden_layers=3,
        num_attention_heads=2,
    )  # fmt: skip
    network = model(shape=wide)
    with torch.no_grad():
        for layer in range(3):
            network.block_gains(layer).attn.fill_(2.0)
            network.block_gains(layer).ff.fill_(3.0)
    chip = Chip(network, IDEAL.override({"node.offset": 0.01}), seed=2)
    embedding = network.state_dict()["model.embed_tokens.weight"].double().square().mean().item()
    assert len(chip.node_force) == 3
    for layer, force in enumerate(chip.node_force, start=1):
        sigma = 0.01 * (embedding + layer * (2.0**2 + 3.0**2)) ** 0.5
        values = force.double().numpy()
        assert values.shape == (1024,)
        assert abs(values.mean()) < 4 * sigma / 1024**0.5
        assert abs(values.std() - sigma) < 4 * sigma / 2048**0.5
        assert stats.kstest(values / sigma, "norm").pvalue > 1e-4
    pairs = np.corrcoef([f.numpy() for f in chip.node_force]) - np.eye(3)
    assert np.abs(pairs).max() < 4.5 / 1024**0.5


def test_no_node_offset_is_no_force():
    assert all(torch.count_nonzero(f) == 0 for f in Chip(model(), IDEAL).node_force)


@pytest.mark.parametrize("periphery", ["float32", "bfloat16", "int8", "int4"])
def test_the_periphery_rounds_what_goes_in_and_comes_out(periphery):
    chip = Chip(model(), IDEAL, periphery=periphery)
    x = torch.randn(4, 3, 16)
    trip = chip.new_pass("free", "per_vector")
    array = chip.arrays["layers.0.w1"]
    want = quantise(array.read(quantise(x, periphery)), periphery)
    assert torch.equal(chip.read(0, "w1", x, trip), want)
    back = quantise(array.read_transpose(quantise(want, periphery)), periphery)
    assert torch.equal(chip.read_transpose(0, "w1", want, trip), back)


def test_coarser_peripheries_are_further_off():
    network = model()
    exact = network(TOKENS)
    off = [
        (Chip(network, IDEAL, periphery=p).logits(TOKENS) - exact).norm().item()
        for p in ("float32", "bfloat16", "int8", "int4")
    ]
    assert off == sorted(off)
    assert off[0] < 1e-4 * exact.norm() < off[1]


def test_calibration_holds_what_was_seen():
    chip = Chip(model(), IDEAL.override({"forward.dac_bits": 8, "transpose.dac_bits": 8}))
    observed = {}
    trip = chip.new_pass("calibrate", "per_vector", observed=observed)
    chip.read(0, "w1", torch.full((1, 2, 16), -3.0), trip)
    chip.read(0, "w1", torch.full((1, 2, 16), 2.0), trip)
    chip.read_transpose(0, "w1", torch.zeros(1, 2, 24), trip)
    assert observed == {("layers.0.w1", "forward"): 3.0, ("layers.0.w1", "transpose"): 0.0}
    chip.hold_ranges(observed, margin=1.5)
    array = chip.arrays["layers.0.w1"]
    assert (array.held_range("forward"), array.held_range("transpose")) == (4.5, 1.0)
    with pytest.raises(InputError, match=r"'layers.0.qkv' has no forward range"):
        chip.logits(TOKENS, "held")


def test_progress_of_programming():
    seen = []
    Chip(model(), IDEAL, on_program=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 10) for n in range(1, 11)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": torch.nn.Linear(2, 2)}, "model: found Linear, allowed: eptsim.Olmo2"),
        ({"card": "ideal"}, "card: found str, allowed: a Card"),
        ({"seed": -1}, "seed: found -1"),
        ({"periphery": "int1"}, "periphery: found 'int1'"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Chip(**{"model": model(), "card": IDEAL, **arguments})


def test_bad_models_and_calls_are_refused():
    network = model()
    with torch.no_grad():
        network.get_parameter("model.layers.1.mlp.up_proj.weight")[0, 0] = torch.nan
    with pytest.raises(InputError, match=r"array 'layers.1.w3': weight: found NaN"):
        Chip(network, IDEAL)
    chip = Chip(model(), IDEAL)
    with pytest.raises(InputError, match="range_policy: found 'batch'"):
        chip.logits(TOKENS, "batch")
    with pytest.raises(InputError):
        chip.logits(TOKENS + 50)
    with pytest.raises(InputError, match=r"array 'layers.0.w1'.*NaN"):
        chip.read(0, "w1", torch.full((2, 16), torch.nan), chip.new_pass("free", "per_vector"))


def test_the_clock_advances_with_passes_and_phases():
    clock = {"clock.pass_s": 0.5, "clock.phase_interval_s": 10.0, "forward.offset_drift": 0.1}
    chip = Chip(model(), IDEAL.override(clock))
    times = [chip.new_pass(phase, "fixed").time_s for phase in ("free", "free", "nudged+")]
    assert times == [0.5, 1.0, 11.5]
    chip.wait(3)
    assert chip.new_pass("nudged+", "fixed").time_s == 15.0
    for bad in (-1, float("nan"), float("inf"), "1", True):
        with pytest.raises(InputError, match="wait: found"):
            chip.wait(bad)


def test_calibration_of_all_lines_is_what_the_reads_use():
    card = IDEAL.override({"transpose.offset": 0.02, "transpose.gain": 0.05})
    network = model(torch.float64)
    chip, exact = Chip(network, card), Chip(network, IDEAL)
    outputs = exact.arrays["layers.1.w3"].shape[0]
    d = torch.randn(4, outputs, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def error():
        reads = [
            one.read_transpose(1, "w3", d, one.new_pass("free", "fixed")) for one in (chip, exact)
        ]
        return float((reads[0] - reads[1]).norm() / reads[1].norm())

    before = error()
    found = chip.calibrate(1)
    assert set(found) == {(path, way) for path in chip.arrays for way in ("forward", "transpose")}
    assert found["layers.1.w3", "transpose"].offset_before > 0.01
    assert found["layers.1.w3", "transpose"].offset_after == pytest.approx(0, abs=1e-12)
    assert found["layers.1.w3", "forward"].offset_before == 0
    assert before > 0.05
    assert error() < 1e-6


def test_offsets_wander_with_the_clock():
    card = IDEAL.override({"forward.offset_drift": 0.1, "forward.offset_time_s": 1.0})
    chip = Chip(model(), card)
    x = torch.zeros(1, 16)
    first, second = (chip.read(0, "w1", x, chip.new_pass("free", "fixed")) for _ in range(2))
    assert 0 < (first - second).abs().max() < 0.2 * first.abs().max()
    chip.wait(100.0)
    later = chip.read(0, "w1", x, chip.new_pass("free", "fixed"))
    assert (first - later).std() > 5 * (first - second).std()


def test_global_generators_are_left_alone():
    network, state = model(), torch.random.get_rng_state()
    numpy_state = np.random.get_state()[1].copy()
    chip = Chip(network, IDEAL.override(FLAWS))
    chip.logits(TOKENS)
    chip.line_references(3, "free")
    assert torch.equal(state, torch.random.get_rng_state())
    np.testing.assert_array_equal(numpy_state, np.random.get_state()[1])
