import pytest
import torch

from eptsim.base.errors import InputError
from eptsim.testing.__main__ import main, parse, with_table
from eptsim.testing.factories import eptsim_crossbar

OURS = "eptsim.testing:eptsim_crossbar"


def test_names_and_dtypes():
    assert parse(OURS) == (OURS, eptsim_crossbar, torch.float32)
    assert parse(f"double={OURS}@float64") == ("double", eptsim_crossbar, torch.float64)
    with pytest.raises(InputError, match="float16"):
        parse(f"{OURS}@float16")


def test_the_table_goes_to_standard_output(capsys):
    status = main([f"ours={OURS}", f"double={OURS}@float64", "--only", "exactness/zero-*"])
    told = capsys.readouterr()
    assert status == 0
    assert "| check | claim | compared with | ours | double |" in told.out
    assert "| `exactness/zero-forward` |" in told.out
    assert "2/2" in told.err


def test_what_does_not_conform_is_the_exit_code(capsys, monkeypatch):
    import eptsim.testing.factories as factories

    def broken(weight, card, seed):
        raise RuntimeError("no chip")

    monkeypatch.setattr(factories, "eptsim_crossbar", broken)
    assert main(["eptsim.testing.factories:eptsim_crossbar", "--only", "exactness/copies"]) == 1
    assert "error: RuntimeError: no chip" in capsys.readouterr().out


def test_the_table_goes_into_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A\n<!-- table -->\nold\n<!-- end of table -->\nend\n")
    assert main([OURS, "--only", "exactness/copies", "--into", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("# A\n<!-- table -->\n\n| check |")
    assert text.endswith("\n<!-- end of table -->\nend\n")
    assert "old" not in text
    with pytest.raises(InputError, match="allowed: a page with both"):
        with_table("# A\n", "| a |")


@pytest.mark.parametrize("arguments", [["nothing:here"], [OURS, "--only", "nothing/*"]])
def test_wrong_arguments_exit_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert "found" in capsys.readouterr().err
