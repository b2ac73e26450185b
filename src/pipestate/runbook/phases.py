"""The parts of one section into a phase: ids are unique, evidence finds its check, a gate asks something."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TypeVar

from pipestate.runbook.finding import Findings
from pipestate.runbook.frontmatter import PhaseHeader
from pipestate.runbook.model import Check, Evidence, Level, Phase, SignOff, View
from pipestate.runbook.sections import Section

Part = Check | Evidence | SignOff | View
P = TypeVar("P", bound=Part)


def build_phase(section: Section, header: PhaseHeader, parts: list[Part], found: Findings) -> Phase:
    """The phase; whatever is wrong between its parts goes to `found`."""
    _report_duplicates(parts, found)
    _report_strays(parts, found)
    evidence = _grouped(part for part in parts if isinstance(part, Evidence))
    phase = Phase(
        name=section.name or "",
        line=section.line,
        from_=header.from_,
        until=header.until,
        opens=header.opens,
        checks=tuple(_with_evidence(part, evidence) for part in parts if isinstance(part, Check | SignOff)),
        views=tuple(part for part in parts if isinstance(part, View)),
    )
    _report_empty_gate(phase, found)
    return phase


def _names(part: Part) -> tuple[str, ...]:
    return part.check_ids if isinstance(part, Evidence) else (part.id,)


def _grouped(parts: Iterable[P]) -> dict[str, list[P]]:
    groups: dict[str, list[P]] = {}
    for part in parts:
        for name in _names(part):
            groups.setdefault(name, []).append(part)
    return groups


def _report_duplicates(parts: list[Part], found: Findings) -> None:
    """Two blocks with one id are variants for two engines, and nothing else."""
    earlier: dict[tuple[bool, str], list[Part]] = {}
    for part in parts:
        for name in _names(part):
            same = earlier.setdefault((isinstance(part, Evidence), name), [])
            clash = (each for each in same if type(each) is not type(part) or each.dialect == part.dialect)
            if first := next(clash, None):
                found.add(part.line, _duplicate(part, name, first.line))
            same.append(part)


def _duplicate(part: Part, name: str, line: int) -> str:
    what = "evidence for" if isinstance(part, Evidence) else "id"
    return (
        f"{what} {name} stands twice in one phase, first on line {line}: give it another id, "
        "or `-- dialect:` if they are two engines' variants of one query"
    )


def _report_strays(parts: list[Part], found: Findings) -> None:
    checks = _grouped(part for part in parts if isinstance(part, Check))
    for part in (part for part in parts if isinstance(part, Evidence)):
        for name in part.check_ids:
            if fault := _stray(part, name, checks):
                found.add(part.line, f"explains {name}{fault}")


def _stray(evidence: Evidence, name: str, checks: dict[str, list[Check]]) -> str | None:
    same = checks.get(name, [])
    if not same:
        known = f"its checks are {', '.join(checks)}" if checks else "it has none"
        return f", which is no check of this phase: {known}"
    if not any(_share_an_engine(check, evidence) for check in same):
        return (
            f" on {evidence.dialect}, where that check does not run: "
            "take the block out, or give the check a variant for that engine"
        )
    if same[0].require.shows_own_rows:
        return (
            f", which requires `{same[0].require.text}` and so shows its own rows: take this block out, "
            "and let the check itself select what a person needs to see"
        )
    return None


def _share_an_engine(check: Check, evidence: Evidence) -> bool:
    return check.dialect is None or evidence.dialect in (None, check.dialect)


def _with_evidence(part: Check | SignOff, evidence: dict[str, list[Evidence]]) -> Check | SignOff:
    if isinstance(part, SignOff):
        return part
    own = (each for each in evidence.get(part.id, []) if _share_an_engine(part, each))
    return replace(part, evidence=tuple(own))


def _report_empty_gate(phase: Phase, found: Findings) -> None:
    for what in _missing(phase):
        found.add(phase.line, f"phase {phase.name} {what}")


def _missing(phase: Phase) -> Iterator[str]:
    if not phase.checks:
        yield "asks nothing: give it a check or a sign-off, or make it a heading without `Phase:`"
    elif phase.opens and all(check.level is Level.WARN for check in phase.checks):
        yield f"opens {', '.join(phase.opens)} but has no blocking check: its gate could never be closed"
