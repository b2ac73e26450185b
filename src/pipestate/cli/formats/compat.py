"""Result of `compat` for today's statements: in lines, as data, and as Markdown."""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any

from pipestate.cli.formats.rehearse_words import filled, near
from pipestate.core.text import many, markdown, markdown_code
from pipestate.rehearse.compat import Compat, StatementResult

SCHEMA = Path(__file__).with_name("compat.schema.json")
LONGEST = 100
SHOWN = 10


def compat_as_lines(found: Compat, width: int = LONGEST) -> Iterator[str]:
    """Write the answer, then broken, changed and unprepared statements with their reasons."""
    for line in (closing(found), *_failure(found)):
        yield from filled(line, "", "  ", width)
    for kind, results in (("breaks", found.broken), ("changes", found.changed)):
        for result in results:
            yield f"{kind}: {_statement(result, width - len(kind) - 2)}"
            yield from filled(
                f"{result.revision} ({near(result.path or '')}): {result.what}", "  ", "    ", width
            )
    for reason, group in by_reason(found):
        yield from filled(f"not prepared, {reason}: {len(group)}", "", "  ", width)
        for result in group[:SHOWN]:
            yield f"  {_statement(result, width - 2)}"
        if len(group) > SHOWN:
            yield f"  and {len(group) - SHOWN} more; --json shows them"


def by_reason(found: Compat) -> list[tuple[str, list[StatementResult]]]:
    """Group the unprepared statements by reason, the most frequent first."""
    in_order = sorted(found.unprepared, key=lambda result: str(result.reason))
    groups = [(reason, list(group)) for reason, group in groupby(in_order, lambda result: str(result.reason))]
    return sorted(groups, key=lambda each: -len(each[1]))


def closing(found: Compat) -> str:
    """Summarise the result in one sentence."""
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


def _statement(result: StatementResult, longest: int = LONGEST) -> str:
    line = " ".join(result.statement.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def compat_as_data(found: Compat) -> dict[str, Any]:
    """Return the result as data; `compat.schema.json` describes it."""
    data = asdict(found)
    return {
        "schema_version": 1,
        "ok": found.exit_code == 0,
        **data,
        "duration_ms": round(found.duration_ms, 1),
        "unprepared_by_reason": {reason: len(group) for reason, group in by_reason(found)},
    }


def compat_as_markdown(found: Compat) -> str:
    """Write a comment for a pull request; statements are quoted literally."""
    mark = "✅" if found.exit_code == 0 else "❌"
    lines = [f"### {mark} pipestate compat: {markdown(closing(found))}"]
    result = [("breaks", each) for each in found.broken] + [("changes", each) for each in found.changed]
    if result:
        lines += ["", "| | statement | revision | what |", "|---|---|---|---|"]
    for kind, each in result:
        where = f"{markdown(str(each.revision))} `{markdown_code(near(each.path or ''))}`"
        lines.append(f"| {kind} | `{markdown_code(_statement(each))}` | {where} | {markdown(each.what)} |")
    notes = [f"not prepared, {reason}: {len(group)}" for reason, group in by_reason(found)]
    notes += _failure(found)
    return "\n".join([*lines, *([""] if notes else []), *(f"- {markdown(note)}" for note in notes)])
