"""PL/pgSQL of a gate in a script, kept as files, `blocks/*.sql`, that read as what will run.

A file begins with what it does and what is filled in, `<<so>>`. A line that is nothing but such a name goes where
there is nothing to fill in.
"""

import re
from functools import cache
from importlib.resources import files

from pipestate.ddl import sql

_NAME = re.compile(r"<<(\w+)>>")
_LINE = re.compile(r"^<<(\w+)>>\n", re.MULTILINE)
_HEAD = re.compile(r"\A(?:--.*\n)+")


def write_block(name: str, *, why: str, **values: str) -> None:
    """Write the block of that name into the script; `why` is for its reader."""
    declare, _, body = _text(name).removeprefix("DECLARE\n").partition("\nBEGIN\n")
    sql.do(_fill(body.rstrip().removesuffix("\nEND"), values), _fill(declare, values), why=why)


def filled(name: str, **values: str) -> str:
    """Return the part of a block of that name, without its last line break."""
    return _fill(_text(name).rstrip("\n"), values)


def _fill(text: str, values: dict[str, str]) -> str:
    """Put each value where its name stands; a name without a value is a KeyError."""
    text = _LINE.sub(lambda found: found[0] if values[found[1]] else "", text)
    return _NAME.sub(lambda found: values[found[1]], text)


@cache
def _text(name: str) -> str:
    """Read a file, without its head of comments."""
    return _HEAD.sub("", (files("pipestate.gate") / "blocks" / f"{name}.sql").read_text(encoding="utf-8"))
