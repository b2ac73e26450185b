import os
from pathlib import Path

import pytest

from pipestate.errors import ConfigError, Unreachable
from pipestate.report.write import write_whole


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    write_whole(file, "one")
    write_whole(file, "two")
    assert file.read_text() == "two"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_whoever_reads_the_old_file_still_does(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    write_whole(file, "the old one")
    with file.open() as reading:
        write_whole(file, "the new one")
        assert reading.read() == "the old one"


def test_a_file_keeps_its_rights_and_a_new_one_has_those_of_the_umask(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    old = os.umask(0o027)
    try:
        write_whole(file, "one")
        assert file.stat().st_mode & 0o777 == 0o640
        file.chmod(0o604)
        write_whole(file, "two")
    finally:
        os.umask(old)
    assert file.stat().st_mode & 0o777 == 0o604


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link = tmp_path / "report.html"
    link.symlink_to(tmp_path / "there" / "kept.html")
    write_whole(link, "one")
    assert link.is_symlink()
    assert (tmp_path / "there" / "kept.html").read_text() == "one"


def test_a_full_disk_is_no_fault_of_the_one_who_asked() -> None:
    with pytest.raises(Unreachable, match="cannot write /dev/full: No space left on device"):
        write_whole(Path("/dev/full"), "one")


def test_a_device_is_written_to() -> None:
    write_whole(Path(os.devnull), "one")
    assert not Path(os.devnull).is_file()


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nowhere/report.html", "cannot write .*No such file or directory: make that directory first"),
        (".", "cannot write .*Is a directory"),
        ("file/report.html", "cannot write .*Not a directory"),
        ("x" * 300, "cannot write .*File name too long"),
    ],
)
def test_what_cannot_be_written_is_one_sentence(path: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=says):
        write_whole(tmp_path / path, "one")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
