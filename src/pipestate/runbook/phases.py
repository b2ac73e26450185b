"""The parts of one section into a phase: ids are unique, evidence finds its check, a gate asks something."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from pipestate.runbook.again import Again, resolve
from pipestate.runbook.finding import Findings
from pipestate.runbook.frontmatter import PhaseHeader
from pipestate.runbook.model import Backfill, Check, Evidence, Level, Phase, SignOff, View, is_variant
from pipestate.runbook.sections import Section
from pipestate.runbook.variants import Part, Variant, join

P = TypeVar("P", bound=Part)


def build_phase(
    section: Section,
    header: PhaseHeader,
    parts: list[Part],
    variants: list[Variant],
    earlier: Sequence[Phase],
    found: Findings,
) -> Phase:
    """Build the phase, and report to `found` what is wrong between its parts."""
    _report_duplicates(parts, found)
    joined = join(parts, variants, found.path, found)
    _report_strays(joined, found)
    evidence = _grouped(part for part in joined if isinstance(part, Evidence))
    name = section.name or ""
    phase = Phase(
        name=name,
        line=section.line,
        from_=header.from_,
        until=header.until,
        opens=header.opens,
        checks=tuple(check for part in joined for check in _asked(part, evidence, earlier, name, found)),
        views=tuple(part for part in joined if isinstance(part, View)),
        backfills=tuple(part for part in joined if isinstance(part, Backfill)),
    )
    _report_empty_gate(phase, parts, found)
    return phase


def _asked(
    part: Part, evidence: dict[str, list[Evidence]], earlier: Sequence[Phase], phase: str, found: Findings
) -> Iterator[Check | SignOff]:
    if isinstance(part, SignOff):
        yield part
    elif isinstance(part, Check):
        own = (each for each in evidence.get(part.id, []) if _share_an_engine(part, each))
        yield replace(part, evidence=tuple(own))
    elif isinstance(part, Again):
        yield from resolve(part, earlier, phase, found)


def _names(part: Part) -> tuple[str, ...]:
    return part.check_ids if isinstance(part, Evidence) else (part.id,)


def _grouped(parts: Iterable[P]) -> dict[str, list[P]]:
    groups: dict[str, list[P]] = {}
    for part in parts:
        for name in _names(part):
            groups.setdefault(name, []).append(part)
    return groups


def _report_duplicates(parts: list[Part], found: Findings) -> None:
    first: dict[tuple[bool, str], int] = {}
    for part in parts:
        for name in _names(part):
            line = first.setdefault((isinstance(part, Evidence), name), part.line)
            if line != part.line:
                found.add(part.line, _duplicate(part, name, line))


def _duplicate(part: Part, name: str, line: int) -> str:
    if isinstance(part, Evidence):
        return f"evidence for {name} stands twice in one phase, first on line {line}: make it one block"
    if isinstance(part, Again):
        return f"{name} is asked in this phase already, on line {line}: take the item out"
    return f"id {name} stands twice in one phase, first on line {line}: give it another id"


def _report_strays(parts: list[Part], found: Findings) -> None:
    checks = _grouped(part for part in parts if isinstance(part, Check))
    again = {part.id: part.phase for part in parts if isinstance(part, Again)}
    seen: set[tuple[str, str | None]] = set()
    for part in (part for part in parts if isinstance(part, Evidence)):
        for name in part.check_ids:
            if fault := _stray(part, name, checks, again):
                found.at(part.block, f"explains {name}{fault}")
            if is_variant(part) and (name, part.dialect) in seen:
                found.at(part.block, f"evidence for {name} stands twice in one phase: keep one of them")
            seen.add((name, part.dialect))


def _stray(
    evidence: Evidence, name: str, checks: dict[str, list[Check]], again: dict[str, str]
) -> str | None:
    same = [check for check in checks.get(name, []) if _share_an_engine(check, evidence)]
    if name in again:
        return f", which is asked again here and brings its evidence along: move the block to phase {again[name]}"
    if name not in checks:
        known = f"its checks are {', '.join(checks)}" if checks else "it has none"
        return f", which is no check of this phase: {known}"
    if not same:
        return f" on {evidence.dialect}, where that check does not run: take the block out"
    if all(check.require.shows_own_rows for check in same):
        return (
            f", which requires `{same[0].require.text}` and so shows its own rows: take this block out, "
            "and let the check itself select what a person needs to see"
        )
    return None


def _share_an_engine(check: Check, evidence: Evidence) -> bool:
    return check.dialect is None or evidence.dialect in (None, check.dialect)


def _report_empty_gate(phase: Phase, parts: list[Part], found: Findings) -> None:
    asks = any(isinstance(part, Check | SignOff | Again) for part in parts)
    for what in _missing(phase, asks=asks):
        found.add(phase.line, f"phase {phase.name} {what}")


def _missing(phase: Phase, *, asks: bool) -> Iterator[str]:
    if not asks:
        yield "asks nothing: give it a check or a sign-off, or make it a heading without `Phase:`"
    elif phase.checks and phase.opens and all(check.level is Level.WARN for check in phase.checks):
        yield f"opens {', '.join(phase.opens)} but has no blocking check: its gate could never be closed"
