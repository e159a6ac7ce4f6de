"""Files as CrossSim 3 writes them; the numbers of `sonos` are those of its SONOS configuration."""

import copy
import json
import subprocess
import sys

import pytest

from eptsim.base.errors import CardError
from eptsim.cards.importers import import_card
from eptsim.cards.importers.crosssim import import_crosssim

ERROR = {"enable": False, "model": "IdealDevice", "magnitude": 0}
MATMUL = {"clipping": False, "min": -1.0, "max": 1.0, "percentile": None}
ADC = {
    "model": "IdealADC", "bits": 0, "signed": True, "stochastic_rounding": False,
    "adc_per_ibit": False, "calibrated_range": None, "adc_range_option": 1,
}
DAC = {"model": "IdealDAC", "bits": 0, "input_bitslicing": False, "signed": True, "slice_size": 1}
PLAIN = {
    "core": {
        "style": 1, "rows_max": 0, "cols_max": 0, "weight_bits": 0, "complex_matrix": False,
        "complex_input": False,
        "balanced": {"style": 1, "interleaved_posneg": False, "subtract_current_in_xbar": True},
        "bit_sliced": {"style": 1, "num_slices": 2},
        "offset": {"style": 1},
        "mapping": {
            "weights": {
                "clipping": True, "min": None, "max": None, "percentile": 1.0,
                "row_partition_priority": [], "col_partition_priority": [],
                "row_partition_strategy": 2, "col_partition_strategy": 2,
            },
            "inputs": {"_match": True, "mvm": MATMUL, "vmm": MATMUL},
        },
    },
    "simulation": {"useGPU": True, "Niters_max_parasitics": 100},
    "xbar": {
        "device": {
            "cell_bits": 0, "Rmin": 1000, "Rmax": 10000, "time": 0, "Vread": 0.1,
            "infinite_on_off_ratio": False, "clip_conductance": False, "read_noise": ERROR,
            "programming_error": ERROR, "drift_error": ERROR,
        },
        "array": {
            "Icol_max": 0,
            "parasitics": {"enable": False, "Rp_row": 1.0, "Rp_col": 2.0, "Rp_row_terminal": 0,
                           "Rp_col_terminal": 3.0, "current_from_input": True},
        },
        "adc": {"_match": True, "mvm": ADC, "vmm": ADC},
        "dac": {"_match": True, "mvm": DAC, "vmm": DAC},
    },
}


@pytest.fixture
def imported(tmp_path):
    """``imported({"dotted.name": value})``: a plain file with changes, imported."""

    def make(changes, file="my-chip.json"):
        document = copy.deepcopy(PLAIN)
        for name, value in changes.items():
            *sections, leaf = name.split(".")
            node = document
            for section in sections:
                node = node[section]
            node[leaf] = value
        path = tmp_path / file
        path.write_text(json.dumps(document))
        return import_crosssim(path)

    return make


def left(found) -> dict[str, str]:
    return {item.field: item.value for item in found.left_out}


def test_a_plain_file_sets_the_window_and_leaves_nothing_out(imported):
    found = imported({})
    assert found.left_out == ()
    card = found.card
    assert card.name == "my_chip"
    assert card.cell.g_max_s == pytest.approx(1e-3) and card.cell.g_min_s == pytest.approx(1e-4)
    assert {view.key for view in card.entries() if view.kind != "default"} == {
        "cell.g_min_s", "cell.g_max_s", "array.mapping",
    }


def test_sonos(imported):
    adc = {**ADC, "model": "RampADC", "bits": 8, "calibrated_range": [-2.5, 4.0], "gain_db": 100}
    dac = {**DAC, "model": "SignMagnitudeDAC", "bits": 8}
    found = imported({
        "core.rows_max": 1152, "core.cols_max": 256, "xbar.device.cell_bits": 7,
        "xbar.device.Rmax": 5000, "xbar.adc.mvm": adc, "xbar.dac.mvm": dac,
        "core.mapping.inputs.mvm": {**MATMUL, "min": -152.0, "max": 152.0},
        "xbar.device.drift_error": {**ERROR, "enable": True, "model": "SONOS"},
    })
    card = found.card
    assert (card.array.rows, card.array.columns, card.cell.levels) == (1152, 256, 128)
    for direction in (card.forward, card.transpose):  # _match: the vmm is as the mvm
        assert (direction.dac_bits, direction.adc_bits) == (8, 8)
        assert direction.input_range == 152.0
        # CrossSim's unit is the highest conductance, a card's the window: 0.8 of it
        assert direction.output_range == pytest.approx(4.0 / 0.8)
    assert left(found) == {
        "core.mapping.weights.row_partition_strategy": "2",
        "core.mapping.weights.col_partition_strategy": "2",
        "xbar.adc.mvm.model": "'RampADC'", "xbar.adc.vmm.model": "'RampADC'",
        "xbar.adc.mvm.gain_db": "100", "xbar.adc.vmm.gain_db": "100",
        "xbar.adc.mvm.calibrated_range": "[-2.5, 4.0]",
        "xbar.adc.vmm.calibrated_range": "[-2.5, 4.0]",
        "xbar.device.drift_error.model": "'SONOS'",
    }


def test_directions_apart(imported):
    found = imported({
        "xbar.adc._match": False,
        "xbar.adc.mvm": {**ADC, "model": "SignMagnitudeADC", "bits": 6,
                         "calibrated_range": [-1, 1]},
        "xbar.adc.vmm": {**ADC, "model": "SignMagnitudeADC", "bits": 4, "adc_range_option": 2},
        "xbar.device.infinite_on_off_ratio": True,
    })
    assert (found.card.forward.adc_bits, found.card.transpose.adc_bits) == (6, 4)
    assert (found.card.forward.output_range, found.card.transpose.output_range) == (1.0, None)
    assert found.card.cell.g_min_s == 0.0
    assert left(found) == {"xbar.adc.vmm.adc_range_option": "2"}


@pytest.mark.parametrize(
    ("model", "programming", "noise"),
    [
        ("NormalIndependentDevice", (0.03, 0.0), ("constant", 0.03)),
        ("NormalProportionalDevice", (0.0, 0.03), ("proportional", 0.03)),
        ("RRAMMilo", (0.0, 0.0), ("none", 0.0)),
    ],
)
def test_error_models(imported, model, programming, noise):
    error = {"enable": True, "model": model, "magnitude": 0.03}
    found = imported({"xbar.device.programming_error": error, "xbar.device.read_noise": error})
    cell = found.card.cell
    assert (cell.programming.sigma, cell.programming.sigma_linear) == programming
    assert (cell.read_noise.law, cell.read_noise.sigma) == noise
    assert len(found.left_out) == (2 if model == "RRAMMilo" else 0)


def test_parasitics(imported):
    array = imported({"xbar.array.parasitics.enable": True}).card.array
    assert (array.wire_word_ohm, array.wire_bit_ohm) == (1.0, 2.0)
    assert (array.driver_ohm, array.sense_ohm) == (None, 3.0)
    assert imported({}).card.array.wire_word_ohm is None


@pytest.mark.parametrize(
    ("changes", "mapping", "slices", "names"),
    [
        ({"core.style": 3}, "offset", 1, set()),
        ({"core.style": 3, "core.offset.style": 2}, "reference_column", 1, {"core.offset.style"}),
        ({"core.balanced.style": 2}, "differential", 1, {"core.balanced.style"}),
        (
            {"core.style": 2, "core.bit_sliced.num_slices": 4, "core.weight_bits": 8,
             "xbar.device.cell_bits": 2},
            "differential", 4, {"core.weight_bits"},
        ),
    ],
)
def test_cores(imported, changes, mapping, slices, names):
    found = imported(changes)
    assert (found.card.array.mapping, found.card.array.slices) == (mapping, slices)
    assert set(left(found)) == names


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"core.mapping.weights.percentile": 1.5}, {"core.mapping.weights.percentile"}),
        ({"core.complex_matrix": True}, {"core.complex_matrix"}),
        ({"xbar.array.Icol_max": 5}, {"xbar.array.Icol_max"}),
        ({"xbar.device.clip_conductance": True}, {"xbar.device.clip_conductance"}),
        ({"xbar.device.invented": 7}, {"xbar.device.invented"}),
        ({"core.balanced.subtract_current_in_xbar": False},
         {"core.balanced.subtract_current_in_xbar"}),
    ],
)
def test_what_has_an_effect_and_no_entry_is_listed(imported, changes, names):
    assert set(left(imported(changes))) == names


def test_a_percentile_clips(imported):
    found = imported({"core.mapping.weights.percentile": 0.995})
    assert found.card.array.clip_percentile == pytest.approx(99.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no readable JSON"),
        ("[]", "allowed: a CrossSim parameter file"),
        ('{"core": {}}', "the objects 'core' and 'xbar'"),
        ('{"core": {}, "xbar": {"device": {"Rmin": 5, "Rmax": 1}}}', "0 < Rmin < Rmax"),
        ('{"core": {"style": 9}, "xbar": {}}', "core.style: found 9"),
        ('{"core": {"rows_max": "many"}, "xbar": {}}', "core.rows_max: found 'many'"),
    ],
)
def test_unusable_files(tmp_path, text, message):
    path = tmp_path / "bad.json"
    path.write_text(text)
    with pytest.raises(CardError, match=message):
        import_crosssim(path)
    with pytest.raises(CardError, match="no readable JSON"):
        import_crosssim(tmp_path / "missing.json")


def test_sources(imported, tmp_path):
    expected = imported({}).card
    path = tmp_path / "my-chip.json"
    assert import_card(str(path)).card == expected
    named = import_card(f"crosssim:{path}", "other").card
    assert named == expected and named.name == "other"
    with pytest.raises(CardError, match="import: found 'nonsense', allowed: aihwkit:PRESET"):
        import_card("nonsense")


def test_crosssim_needs_no_aihwkit(imported, tmp_path):
    imported({})
    program = (
        "import sys; sys.modules['aihwkit'] = None\n"
        "from eptsim.cards.importers import import_card\n"
        f"print(import_card({str(tmp_path / 'my-chip.json')!r}).card.name)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         check=True)
    assert ran.stdout == "my_chip\n"
