"""A file that is replaced as a whole."""

import os
from pathlib import Path
from threading import Thread

import pytest

from pipestate.core.paths import replace_text


def names(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def test_the_new_text_takes_the_place_of_the_old_one_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "pipestate.prom"
    for text in ("old\n", "new é\n"):
        replace_text(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert names(tmp_path) == ["pipestate.prom"]


def test_others_may_read_it_as_the_umask_says(tmp_path: Path) -> None:
    """A collector is another user: a temporary file of Python's would be for its owner alone."""
    before = os.umask(0o022)
    try:
        replace_text(tmp_path / "x.prom", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "x.prom").stat().st_mode & 0o777 == 0o644


def test_no_reader_ever_sees_a_part(tmp_path: Path) -> None:
    path = tmp_path / "x.prom"
    texts = {letter * 200_000 for letter in "ab"}
    replace_text(path, "a" * 200_000)

    def write() -> None:
        for text in sorted(texts) * 20:
            replace_text(path, text)

    writer = Thread(target=write)
    writer.start()
    while writer.is_alive():
        assert path.read_text() in texts
        assert [each.name for each in tmp_path.glob("*.prom")] == ["x.prom"]
    writer.join()


def test_a_link_stays_a_link_and_a_pipe_stays_a_pipe(tmp_path: Path) -> None:
    real, link, pipe = tmp_path / "real.prom", tmp_path / "link.prom", tmp_path / "pipe"
    real.write_text("old")
    link.symlink_to(real)
    replace_text(link, "new")
    assert (link.is_symlink(), real.read_text()) == (True, "new")
    os.mkfifo(pipe)
    found: list[str] = []
    reader = Thread(target=lambda: found.append(pipe.read_text()))
    reader.start()
    replace_text(pipe, "through")
    reader.join()
    assert (found, pipe.is_fifo()) == (["through"], True)


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "x.prom"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        replace_text(path, "new \ud800")
    assert (path.read_text(), names(tmp_path)) == ("old", ["x.prom"])
    with pytest.raises(FileNotFoundError):
        replace_text(tmp_path / "no" / "x.prom", "x")
