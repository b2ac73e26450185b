"""Text for people: paths, ages and moments."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import pytest

from pipestate.core.errors import ConfigError
from pipestate.core.text import parse_age, parse_since, replace_text


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


NOW = datetime(2026, 1, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "age"),
    [("1y", timedelta(days=365)), ("6w", timedelta(weeks=6)), (" 90d ", timedelta(days=90))],
)
def test_ages(text: str, age: timedelta) -> None:
    assert parse_age(text, units="ywd") == age


@pytest.mark.parametrize("text", ["", "1", "y", "-1y", "1.5d", "1m", "12h", "9999999d", "1y1d", "٣d"])
def test_other_ages_are_refused_with_examples(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--older-than .*: write 1y, 6w or 30d"):
        parse_age(text, units="ywd")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("7d", NOW - timedelta(days=7)),
        ("30m", NOW - timedelta(minutes=30)),
        ("2026-01-19", datetime(2026, 1, 19, tzinfo=UTC)),
        ("2026-01-19T10:30", datetime(2026, 1, 19, 10, 30, tzinfo=UTC)),
        ("2026-01-19T10:30:00+02:00", datetime(2026, 1, 19, 8, 30, tzinfo=UTC)),
    ],
)
def test_moments(text: str, moment: datetime) -> None:
    assert parse_since(text, now=NOW) == moment


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "999999y", "0001-01-01T00:00+05:00"])
def test_other_moments_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="write an age such as 7d, or a date"):
        parse_since(text, now=NOW)
