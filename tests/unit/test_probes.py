"""Probes that an alembic.ini names: the numbers, and every failure."""

import shlex
import sys
from pathlib import Path

import pytest

from attacks.sessions import wait_until
from pipestate.core.errors import ConfigError, Unreachable
from pipestate.probes import run_command, run_probes
from pipestate.project.find import Named, Project, find_project
from support.packages import installed

DEPTH = "def depth(ini, options):\n    return {'depth': len(options), ini.name: 1}\n"


def project(directory: Path, *lines: str) -> Project:
    path = directory / "alembic.ini"
    path.write_text("[alembic]\nscript_location = %(here)s\n" + "".join(f"{line}\n" for line in lines))
    return find_project(Named(config=path))


def test_an_ini_that_names_none_reads_none(tmp_path: Path) -> None:
    assert run_probes(project(tmp_path)) == []


def test_a_line_is_source_probe_options(tmp_path: Path) -> None:
    lines = ("[pipestate:observe]", "depth =", "second = depth 50% of it")
    with installed(tmp_path, "acme", DEPTH, probes={"depth": "acme:depth"}):
        first, second = run_probes(project(tmp_path, *lines))
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
        broken, works = run_probes(project(tmp_path, *lines))
    assert said in str(broken.error)
    assert broken.facts == {}
    assert (works.facts, works.error) == ({"fine": 1.0}, None)


def test_a_probe_that_is_not_there_is_named_with_its_line(tmp_path: Path) -> None:
    (probed,) = run_probes(project(tmp_path, "[pipestate:observe]", "backlog = kafka topic"))
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
        found = run_probes(project(tmp_path, *lines))
    assert [each.facts for each in found] == [{"waiting": 3.0}, {"left": 1.0}, {"done": 1.0}]


def test_a_package_cannot_take_the_name_of_one_of_our_own(tmp_path: Path) -> None:
    with installed(tmp_path, "acme", DEPTH, probes={"command": "acme:depth"}):
        (probed,) = run_probes(project(tmp_path, "[pipestate:observe]", "n = command echo 7"))
    assert probed.facts == {"n": 7.0}


def python(code: str) -> str:
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(code)}"


@pytest.fixture
def ini(tmp_path: Path) -> Path:
    path = tmp_path / "alembic.ini"
    path.write_text("[alembic]\n")
    return path


@pytest.mark.parametrize(
    ("options", "number"),
    [
        ("echo 12", 12),
        ("printf '\\n 1.5e2 \\n'", 150),
        ("timeout=20s echo -3", -3),
        ("sh -c 'printf x | wc -c'", 1),
        (python("print(7)"), 7),
    ],
)
def test_the_number_that_a_program_prints(ini: Path, options: str, number: float) -> None:
    assert run_command(ini, options) == number


def test_no_shell_looks_at_the_words(ini: Path) -> None:
    code = "import sys; print(len(sys.argv[1:]) if sys.argv[1] == '$HOME;' else -1)"
    assert run_command(ini, f"{python(code)} $HOME; * '>x' a=b timeout=3s") == 5
    assert [path.name for path in ini.parent.iterdir()] == ["alembic.ini"]


def test_it_runs_in_the_directory_of_the_ini(ini: Path) -> None:
    (ini.parent / "count.sh").write_text("#!/bin/sh\ncat number\n")
    (ini.parent / "count.sh").chmod(0o755)
    (ini.parent / "number").write_text("41\n")
    assert run_command(ini, "./count.sh") == 41
    assert run_command(ini.parent, "./count.sh") == 41, "a project that has no ini is known by its directory"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("false", "false ended with exit code 1"),
        (
            "sh -c 'echo; echo no such queue >&2; echo more >&2; exit 3'",
            "sh ended with exit code 3: no such queue",
        ),
        ("sh -c 'kill -9 $$'", "sh ended with signal 9"),
        ("true", "true printed nothing instead of a number"),
        ("echo 12 messages", "echo printed '12 messages' instead of a number"),
        ("echo nan", "echo printed 'nan' instead of a number"),
        ("sh -c 'echo; echo why >&2'", "sh printed nothing instead of a number: why"),
    ],
)
def test_any_other_ending_is_no_observation(ini: Path, options: str, said: str) -> None:
    with pytest.raises(Unreachable) as caught:
        run_command(ini, options)
    assert str(caught.value) == said


def test_what_a_program_says_is_shown_and_not_obeyed(ini: Path) -> None:
    text = "\x1b[2J::error::owned" + "x" * 1000
    for code in (f"import sys; sys.exit({text!r})", f"print({text!r})"):
        with pytest.raises(Unreachable) as caught:
            run_command(ini, python(code))
        assert "\x1b" not in str(caught.value)
        assert len(str(caught.value)) < 400


def test_a_program_that_takes_too_long_is_ended_with_all_that_it_started(ini: Path) -> None:
    """Its child as well, which holds the output open."""
    with pytest.raises(Unreachable, match="sh took longer than 1 s, and was ended"):
        run_command(ini, "timeout=1s sh -c 'sleep 60 & echo $! > child; wait'")
    child = Path("/proc", (ini.parent / "child").read_text().strip(), "stat")
    wait_until(
        lambda: has_ended(child), "the child has ended"
    )  # a signal takes effect when its process runs next


def has_ended(stat: Path) -> bool:
    try:
        return stat.read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "write the command"),
        ("timeout=3s", "write the command"),
        ("timeout=soon echo 1", "timeout= soon: write 12h, 45m or 30s"),
        ("'echo 1", "a quotation mark is never closed"),
        ("no-such-program-anywhere", "cannot run no-such-program-anywhere: No such file or directory"),
        ("/etc/passwd", "cannot run /etc/passwd: Permission denied"),
        ("echo\x00 1", "cannot run echo\\x00: embedded null byte"),
    ],
)
def test_a_command_that_cannot_be_run_is_a_mistake_of_the_ini(ini: Path, options: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run_command(ini, options)
    assert said in str(caught.value)
