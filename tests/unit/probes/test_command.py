"""The probe `command`: a program's number, and every other ending of it."""

import shlex
import sys
from pathlib import Path

import pytest

from attacks.sessions import wait_until
from pipestate.core.errors import ConfigError, Unreachable
from pipestate.probes.command import probe


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
    assert probe(ini, options) == number


def test_no_shell_looks_at_the_words(ini: Path) -> None:
    code = "import sys; print(len(sys.argv[1:]) if sys.argv[1] == '$HOME;' else -1)"
    assert probe(ini, f"{python(code)} $HOME; * '>x' a=b timeout=3s") == 5
    assert [path.name for path in ini.parent.iterdir()] == ["alembic.ini"]


def test_it_runs_in_the_directory_of_the_ini(ini: Path) -> None:
    (ini.parent / "count.sh").write_text("#!/bin/sh\ncat number\n")
    (ini.parent / "count.sh").chmod(0o755)
    (ini.parent / "number").write_text("41\n")
    assert probe(ini, "./count.sh") == 41
    assert probe(ini.parent, "./count.sh") == 41, "a project that has no ini is known by its directory"


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
        probe(ini, options)
    assert str(caught.value) == said


def test_what_a_program_says_is_shown_and_not_obeyed(ini: Path) -> None:
    text = "\x1b[2J::error::owned" + "x" * 1000
    for code in (f"import sys; sys.exit({text!r})", f"print({text!r})"):
        with pytest.raises(Unreachable) as caught:
            probe(ini, python(code))
        assert "\x1b" not in str(caught.value)
        assert len(str(caught.value)) < 400


def test_a_program_that_takes_too_long_is_ended_with_all_that_it_started(ini: Path) -> None:
    """Its child as well, which holds the output open."""
    with pytest.raises(Unreachable, match="sh took longer than 1 s, and was ended"):
        probe(ini, "timeout=1s sh -c 'sleep 60 & echo $! > child; wait'")
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
        probe(ini, options)
    assert said in str(caught.value)
