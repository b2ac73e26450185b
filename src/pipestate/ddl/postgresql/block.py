"""PL/pgSQL that is kept as files, `blocks/*.sql`, and run with constants of its own.

A file is a whole block; its first lines say what it does and which constants it wants. Nothing in it is filled
in: what a DBA reads there is what runs, online and in scripts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from pipestate.ddl import sql


@dataclass(frozen=True, slots=True)
class Expression:
    """A constant that the server computes."""

    type: str
    text: str


Constant = str | bool | int | Sequence[str] | Mapping[str, str] | Expression | None
Constants = dict[str, Constant]


def run_block(name: str, constants: Constants, *, why: str = "") -> None:
    """Run the block of that name; `why` is for the reader of a script."""
    head, body = _block(name)
    declared = "\n".join(f"  {key} CONSTANT {_constant(value)};" for key, value in constants.items())
    sql.do(body, f"{declared}\n{head}", why=why)
    if sql.SAID in body:
        sql.say_warnings()


@cache
def _block(name: str) -> tuple[str, str]:
    """Return the declarations and the body of a file, without its head of comments."""
    text = (files("pipestate.ddl.postgresql") / "blocks" / f"{name}.sql").read_text(encoding="utf-8")
    _, _, text = text.partition("DECLARE\n")
    head, _, body = text.partition("\nBEGIN\n")
    return head, body.strip().removesuffix("END").rstrip()


def _constant(value: Constant) -> str:
    """
    >>> _constant("it's"), _constant(["a", "b"]), _constant(None), _constant(True)
    ("text := 'it''s'", "text[] := ARRAY['a', 'b']::text[]", 'text := NULL', 'boolean := true')
    """
    if value is None:
        return "text := NULL"
    if isinstance(value, bool):
        return f"boolean := {str(value).lower()}"
    if isinstance(value, int):
        return f"integer := {value}"
    if isinstance(value, str):
        return f"text := {sql.literal(value)}"
    if isinstance(value, Expression):
        return f"{value.type} := {value.text}"
    if isinstance(value, Mapping):
        pairs = ",\n    ".join(
            f"{sql.literal(key)}, {sql.dollar(text, 'sql')}" for key, text in value.items()
        )
        return f"jsonb := jsonb_build_object({pairs})"
    return f"text[] := ARRAY[{sql.literals(value)}]::text[]"
