"""The probes that an alembic.ini names: what they find, and what becomes of those that fail."""

from pathlib import Path

import pytest

from pipestate.core.errors import ConfigError
from pipestate.probes.configured import run_probes
from pipestate.project.find import Named, Project, find_project
from support.packages import installed

DEPTH = "def depth(ini, options):\n    return {'depth': len(options), ini.name: 1}\n"


def ini(directory: Path, *lines: str) -> Project:
    path = directory / "alembic.ini"
    path.write_text("[alembic]\nscript_location = %(here)s\n" + "".join(f"{line}\n" for line in lines))
    return find_project(Named(config=path))


def test_an_ini_that_names_none_asks_none(tmp_path: Path) -> None:
    assert run_probes(ini(tmp_path)) == []


def test_a_line_is_source_probe_options(tmp_path: Path) -> None:
    lines = ("[pipestate:observe]", "depth =", "second = depth 50% of it")
    with installed(tmp_path, "acme", DEPTH, probes={"depth": "acme:depth"}):
        first, second = run_probes(ini(tmp_path, *lines))
    assert (first.source, first.facts) == ("depth", {"depth": 0.0, "alembic.ini": 1.0})
    assert (second.source, second.facts) == ("second", {"depth": 9.0, "alembic.ini": 1.0})


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import gone\n", "the probe depth of acme 1.0 cannot be loaded: No module named 'gone'"),
        ("def depth(ini, options):\n    return 1 / 0\n", "acme 1.0 failed: ZeroDivisionError"),
        ("def depth(ini, options):\n    return {'depth': 'many'}\n", "acme 1.0 failed: ValueError"),
        ("def depth(ini, options):\n    return {'depth': float('nan')}\n", "has no number for depth"),
    ],
)
def test_a_probe_that_fails_does_not_stop_the_others(tmp_path: Path, code: str, said: str) -> None:
    lines = ("[pipestate:observe]", "depth =", "fine =")
    fine = "def fine(ini, options):\n    return {'fine': 1}\n"
    with (
        installed(tmp_path, "acme", code, probes={"depth": "acme:depth"}),
        installed(tmp_path, "other", fine, probes={"fine": "other:fine"}),
    ):
        broken, works = run_probes(ini(tmp_path, *lines))
    assert said in str(broken.error)
    assert broken.facts == {}
    assert (works.facts, works.error) == ({"fine": 1.0}, None)


def test_a_probe_that_is_not_there_is_named_with_its_line(tmp_path: Path) -> None:
    (probed,) = run_probes(ini(tmp_path, "[pipestate:observe]", "backlog = kafka topic"))
    assert isinstance(probed.error, ConfigError)
    assert str(probed.error) == (
        f"{tmp_path}/alembic.ini: backlog in [pipestate:observe]: there is no probe kafka; "
        "there are command, rq, statements"
    )


def test_one_number_has_the_name_of_its_line(tmp_path: Path) -> None:
    """And the options may go on in the next lines."""
    code = "def depth(ini, options):\n    return len(options.split())\n"
    lines = (
        "[pipestate:observe]",
        "waiting = depth one two",
        "    three",
        "left = depth",
        "  a",
        "done = depth\ta",
    )
    with installed(tmp_path, "acme", code, probes={"depth": "acme:depth"}):
        found = run_probes(ini(tmp_path, *lines))
    assert [each.facts for each in found] == [{"waiting": 3.0}, {"left": 1.0}, {"done": 1.0}]


def test_a_package_cannot_take_the_name_of_one_of_our_own(tmp_path: Path) -> None:
    with installed(tmp_path, "acme", DEPTH, probes={"command": "acme:depth"}):
        (probed,) = run_probes(ini(tmp_path, "[pipestate:observe]", "n = command echo 7"))
    assert probed.facts == {"n": 7.0}
