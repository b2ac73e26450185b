"""psql as people use it: with files, with a psqlrc, and pasted into a terminal; and scripts cut in parts."""

import os
import pty
import re
import select
import subprocess
import termios
from collections.abc import Iterable, Iterator
from pathlib import Path

from support.servers import Database, postgres_binary

PATIENCE_S = 60
PROMPT = "~ready~"
# What psql writes: never a pager, always in English.
ENVIRONMENT = {"PSQL_PAGER": "cat", "TERM": "dumb", "LC_ALL": "C"}


def feed_each(database: Database, scripts: Iterable[str], directory: Path, *options: str) -> str:
    """Give many scripts to one psql, each on a connection of its own: as `feed` one by one, but quicker."""
    directory.mkdir(exist_ok=True)
    files: list[str] = []
    for number, script in enumerate(scripts):
        path = directory / f"{number}.sql"
        path.write_text(f"\\connect\n{script}", encoding="utf-8")
        files += ["-f", str(path)]
    return feed(database, "", *options, *files)


def feed(database: Database, script: str, *options: str, psqlrc: Path | None = None) -> str:
    """Give a script to psql on its standard input; return what it says, of whatever kind.

    Without a psqlrc psql goes on after errors, unless the script itself says otherwise.
    """
    quiet = ["-q"] if psqlrc is not None else ["-X", "-q"]
    environment = {**os.environ, **ENVIRONMENT, "PSQLRC": str(psqlrc or os.devnull)}
    done = subprocess.run(
        [postgres_binary("psql"), *quiet, *options, database.text],
        input=script,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    return done.stdout


def paste(database: Database, script: str, psqlrc: Path) -> str:
    """Type a script line by line into a psql on a terminal, each line when the prompt is there."""
    rc = psqlrc.with_name("psqlrc-with-prompt")
    prompts = "".join(f"\\set PROMPT{number} '{PROMPT}'\n" for number in (1, 2, 3))
    rc.write_text(psqlrc.read_text(encoding="utf-8") + prompts, encoding="utf-8")
    ours, theirs = pty.openpty()
    attributes = termios.tcgetattr(theirs)
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    process = subprocess.Popen(
        [postgres_binary("psql"), "-n", "-q", database.text],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, **ENVIRONMENT, "PSQLRC": str(rc)},
    )
    os.close(theirs)
    screen = _until_prompt(ours)
    for line in [*script.splitlines(), ";", "\\q"]:
        os.write(ours, f"{line}\n".encode())
        screen += _until_prompt(ours)
    process.wait(PATIENCE_S)
    os.close(ours)
    return screen


def _until_prompt(terminal: int) -> str:
    """Read until psql asks for the next line, or has gone."""
    written = b""
    while not written.endswith(PROMPT.encode()):
        ready, _, _ = select.select([terminal], [], [], PATIENCE_S)
        assert ready, f"psql does not go on after {written!r}"
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # Linux says EIO when the other side is closed
            break
        written += chunk
    return written.decode(errors="replace")


# --- Scripts ---------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"(?P<quoted>'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|(?P<tag>\$\w*\$).*?(?P=tag)|--[^\n]*|/\*.*?\*/)"
    r"|(?P<meta>^\\[^\n]*\n)|(?P<end>;)|.",
    re.DOTALL | re.MULTILINE,
)


def statements(script: str) -> list[str]:
    """Cut a script into its statements, as psql does; together they are the script.

    >>> statements("BEGIN;\\nDO $a$ x; $a$;\\nCOMMIT;\\n")
    ['BEGIN;', '\\nDO $a$ x; $a$;', '\\nCOMMIT;', '\\n']
    """
    parts, begun = [], 0
    for token in _TOKEN.finditer(script):
        if token["end"] or token["meta"]:
            parts.append(script[begun : token.end()])
            begun = token.end()
    return [*parts, script[begun:]]


def from_every_line(script: str) -> Iterator[tuple[str, str]]:
    """Cut a script in two, at each of its lines."""
    lines = script.splitlines(keepends=True)
    for number in range(1, len(lines)):
        yield "".join(lines[:number]), "".join(lines[number:])


def from_every_statement(script: str) -> Iterator[tuple[str, str]]:
    """Cut a script in two, before each of its statements but the first."""
    parts = statements(script)
    for number in range(1, len(parts) - 1):
        yield "".join(parts[:number]), "".join(parts[number:])


def without_psql_commands(script: str) -> str:
    r"""Leave out `\set …`: as in a client that does not know it, or pasted from BEGIN on.

    >>> without_psql_commands("\\set ON_ERROR_STOP on\nBEGIN;\n")
    'BEGIN;\n'
    """
    return re.sub(r"^\\(set|unset|if|endif|quit|q)\b[^\n]*\n", "", script, flags=re.MULTILINE)
