"""Files that are complete or not there, and know when a bit of them changed."""

import os
from pathlib import Path

import pytest

from eptsim.base.sealed import SEAL_LENGTH, append_seal, complete_file, is_sealed, seal_of


def sealed(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    append_seal(path)
    return path


@pytest.mark.parametrize("size", [0, 1, 1000, 2**22, 2**22 + 1])
def test_a_seal_is_one_line_after_the_content(tmp_path, size):
    content = os.urandom(size)
    path = sealed(tmp_path / "f", content)
    assert path.read_bytes() == content + seal_of(content)
    assert len(seal_of(content)) == SEAL_LENGTH
    assert is_sealed(path)


def test_every_flipped_bit_breaks_the_seal(tmp_path):
    path = sealed(tmp_path / "f", b"content")
    whole = path.read_bytes()
    for place in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[place] ^= 1 << bit
            path.write_bytes(changed)
            assert not is_sealed(path)


def test_every_truncation_and_addition_breaks_the_seal(tmp_path):
    path = sealed(tmp_path / "f", b"content")
    whole = path.read_bytes()
    for changed in [whole[:n] for n in range(len(whole))] + [whole + b"\n", b"\n" + whole]:
        path.write_bytes(changed)
        assert not is_sealed(path)


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match="nothing"):
        is_sealed(tmp_path / "nothing")


def test_the_file_appears_when_the_body_is_done(tmp_path):
    path = tmp_path / "f.h5"
    with complete_file(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
        assert temporary.name.startswith(".") and temporary.name.endswith(".tmp")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "f"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), complete_file(path) as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    with pytest.raises(FileNotFoundError), complete_file(path):
        pass  # wrote nothing
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failing_disk_leaves_the_old_file(tmp_path, monkeypatch, step):
    path = tmp_path / "f"
    path.write_text("old")

    def fail(*_):
        raise OSError("no room")

    monkeypatch.setattr(os if step == "fsync" else Path, step, fail)
    with pytest.raises(OSError, match="no room"), complete_file(path) as temporary:
        temporary.write_text("new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
