import pytest

from eptsim.base.errors import InputError
from eptsim.testing.factories import eptsim_crossbar
from eptsim.testing.loading import load_factory


def test_a_factory_by_its_name():
    assert load_factory("eptsim.testing.factories:eptsim_crossbar") is eptsim_crossbar
    assert load_factory("eptsim.testing:eptsim_crossbar") is eptsim_crossbar  # loaded on use


def test_a_module_beside_the_caller(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", __import__("sys").path[:])
    (tmp_path / "beside_the_caller.py").write_text("def make(w, card, seed): return None\n")
    assert load_factory("beside_the_caller:make", tmp_path)(1, 2, 3) is None


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("eptsim.testing", r"found 'eptsim\.testing', allowed: package\.module:factory"),
        (":x", "allowed"),
        ("no_such_module:x", "found no module 'no_such_module'"),
        ("eptsim.testing.factories:eptsim_crosbar", "Did you mean 'eptsim_crossbar'"),
        ("eptsim.testing.factories:AIHWKIT_ENTRIES", "found no callable"),
    ],
)
def test_what_leads_nowhere_is_refused(name, match):
    with pytest.raises(InputError, match=match):
        load_factory(name)
