"""Repeated checks: `- again: `backfill/no-orphans`` runs a check of an earlier phase once more.

The block is written once in the runbook; the item may change its criterion or its time span.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pipestate.runbook import markdown
from pipestate.runbook.criterion import Requirement, RequirementError, parse_requirement
from pipestate.runbook.directives import FORM as LENGTH
from pipestate.runbook.directives import is_length, with_length
from pipestate.runbook.model import Check, Evidence, Findings, Phase, SignOff

FORM = "- again: `phase/check`, requires `n = 0`, over `48 hours`: why"

_ITEM = re.compile(r"again:\s*`(?P<phase>[^`/]*)/(?P<id>[^`/]*)`(?P<rest>.*)", re.IGNORECASE)
_CLAUSE = re.compile(r"\s*,\s*(?P<word>requires|over)\s+`(?P<value>[^`]*)`")
_END = re.compile(r"\s*(?::\s*\S.*)?")


@dataclass(frozen=True, slots=True)
class Again:
    """An `again` item; `id` is the id of the check in the phase that contains its block."""

    id: str
    line: int
    phase: str
    require: Requirement | None = None
    over: str | None = None

    @property
    def address(self) -> str:
        return f"{self.phase}/{self.id}"


def is_again(item: markdown.AgainItem) -> bool:
    return _ITEM.fullmatch(" ".join(item.text.split())) is not None


def read_again(item: markdown.AgainItem, found: Findings) -> Again | None:
    """Read the item, and report its faults to `found`; a paragraph that reads like an item is a fault."""
    if not item.listed:
        if is_again(item):
            found.add(item.line, f"`again:` is read only as a list item: write `{FORM}`")
        return None
    said = _ITEM.fullmatch(" ".join(item.text.split()))
    clauses = _clauses(said["rest"]) if said else None
    if said is None or clauses is None:
        found.add(
            item.line,
            f"an item that begins with `again` asks a check of an earlier phase once more: write `{FORM}`, "
            "of which the last three parts may be left out; prose begins with another word",
        )
        return None
    over = clauses.get("over")
    if over is not None and not is_length(over):
        found.add(item.line, f"again {said['phase']}/{said['id']}, over `{over}`: write {LENGTH}")
    return Again(said["id"], item.line, said["phase"], _requirement(clauses, item.line, found), over)


def _clauses(rest: str) -> dict[str, str] | None:
    """Read `requires` and `over` in either order; None for a repeated or unknown clause."""
    clauses: dict[str, str] = {}
    position = 0
    while clause := _CLAUSE.match(rest, position):
        word = clause["word"].lower()
        if word in clauses:
            return None
        clauses[word] = clause["value"].strip()
        position = clause.end()
    return clauses if _END.fullmatch(rest, position) else None


def _requirement(clauses: dict[str, str], line: int, found: Findings) -> Requirement | None:
    text = clauses.get("requires")
    if text is None:
        return None
    try:
        return parse_requirement(text)
    except RequirementError as error:
        found.add(line, f"requires `{text}`: {error.what}")
        return Requirement(text, ())


def resolve(item: Again, earlier: Sequence[Phase], own: str, found: Findings) -> Iterator[Check]:
    """Apply the item's changes to the check of an earlier phase; yield one check per engine variant."""
    phase = next((phase for phase in earlier if phase.name == item.phase), None)
    fault = _why_not(item, phase, earlier, own)
    if fault or phase is None:
        found.add(item.line, f"again {item.address}: {fault}")
        return
    for check in (check for check in phase.checks if check.id == item.id and isinstance(check, Check)):
        if item.over is not None and check.window is None:
            found.add(
                item.line,
                f"again {item.address}, over `{item.over}`: its block names no length that could be another; "
                "add `-- window:` with the one that stands in its SQL",
            )
        yield _changed(check, item)


def _changed(check: Check, item: Again) -> Check:
    changed = replace(check, line=item.line, again=item.address, require=item.require or check.require)
    if item.over is None or check.window is None:
        return changed
    return replace(
        changed,
        sql=with_length(check.sql, check.window, item.over, check.dialect),
        evidence=tuple(_over(each, check.window, item.over) for each in check.evidence),
        window=item.over,
    )


def _over(evidence: Evidence, window: str, other: str) -> Evidence:
    return replace(evidence, sql=with_length(evidence.sql, window, other, evidence.dialect))


def _why_not(item: Again, phase: Phase | None, earlier: Sequence[Phase], own: str) -> str | None:
    if item.phase == own:
        return "that is this same phase, and what it has is asked anyway: take the item out"
    if phase is None:
        known = ", ".join(dict.fromkeys(each.name for each in earlier))
        there = f"those before this one are {known}" if known else "there is none before this one"
        return f"no earlier phase is called {item.phase}: {there}"
    named = [check for check in phase.checks if check.id == item.id]
    if not named:
        checks = dict.fromkeys(check.id for check in phase.checks if isinstance(check, Check))
        return f"phase {phase.name} has no such check: it has {', '.join(checks) or 'none'}"
    if isinstance(named[0], SignOff):
        return "a sign-off is of its phase: write the task-list item here as well, so that people sign again"
    if named[0].again is not None:
        return f"there it is itself asked again: name the phase where its block stands, `{named[0].again}`"
    return None
