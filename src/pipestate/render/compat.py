"""What becomes of today's statements: in lines, as data, and as Markdown."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from pipestate.plural import many
from pipestate.rehearse.compat import Compat, ToldStatement
from pipestate.render.rehearse_words import filled, near
from pipestate.safe import markdown, markdown_code

SCHEMA = Path(__file__).with_name("compat.schema.json")
LONGEST = 100
SHOWN = 10


def compat_as_lines(found: Compat, width: int = LONGEST) -> Iterator[str]:
    """Write what breaks, what changes, and what could not be prepared, with its reason."""
    for kind, all_told in (("breaks", found.broken), ("changes", found.changed)):
        for told in all_told:
            yield f"{kind}: {_statement(told, width - len(kind) - 2)}"
            yield from filled(f"{told.revision} ({near(told.path or '')}): {told.what}", "  ", "    ", width)
    for reason, group in by_reason(found):
        yield from filled(f"not prepared, {reason}: {len(group)}", "", "  ", width)
        for told in group[:SHOWN]:
            yield f"  {_statement(told, width - 2)}"
        if len(group) > SHOWN:
            yield f"  and {len(group) - SHOWN} more; --json shows them"
    for line in (*_failure(found), closing(found)):
        yield from filled(line, "", "  ", width)


def by_reason(found: Compat) -> list[tuple[str, list[ToldStatement]]]:
    """Put the statements that could not be prepared together by the reason, the most frequent one first."""
    in_order = sorted(found.unprepared, key=lambda told: str(told.reason))
    groups = [(reason, list(group)) for reason, group in groupby(in_order, lambda told: str(told.reason))]
    return sorted(groups, key=lambda each: -len(each[1]))


def closing(found: Compat) -> str:
    """Say in one sentence what becomes of them."""
    return (
        f"{many(found.statements, 'statement')}: {len(found.broken)} would break, {len(found.changed)} would return other "
        f"columns, {len(found.unprepared)} cannot be prepared."
    )


def _failure(found: Compat) -> Iterator[str]:
    if found.failure is not None:
        where = f" ({near(found.failure.source)})" if found.failure.source else ""
        at = found.after or "base"
        yield (
            f"Failed{where}: {found.failure.message}; later revisions were not tried. The clone is at {at} now, production "
            "was not touched."
        )


def _statement(told: ToldStatement, longest: int = LONGEST) -> str:
    line = " ".join(told.statement.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def compat_as_data(found: Compat) -> dict[str, Any]:
    """The same as JSON has it; `compat.schema.json` describes it."""
    data = asdict(found)
    return {
        "schema_version": 1,
        "ok": found.exit_code == 0,
        **data,
        "duration_ms": round(found.duration_ms, 1),
        "unprepared_by_reason": {reason: len(group) for reason, group in by_reason(found)},
    }


def compat_as_markdown(found: Compat) -> str:
    """Write a comment for a pull request; statements are shown as they are."""
    mark = "✅" if found.exit_code == 0 else "❌"
    lines = [f"### {mark} pipestate compat: {markdown(closing(found))}"]
    told = [("breaks", each) for each in found.broken] + [("changes", each) for each in found.changed]
    if told:
        lines += ["", "| | statement | revision | what |", "|---|---|---|---|"]
    for kind, each in told:
        where = f"{markdown(str(each.revision))} `{markdown_code(near(each.path or ''))}`"
        lines.append(f"| {kind} | `{markdown_code(_statement(each))}` | {where} | {markdown(each.what)} |")
    notes = [f"not prepared, {reason}: {len(group)}" for reason, group in by_reason(found)]
    notes += _failure(found)
    return "\n".join([*lines, *([""] if notes else []), *(f"- {markdown(note)}" for note in notes)])
