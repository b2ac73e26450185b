"""Read the parts of a phase: fenced SQL blocks, sign-offs, and `again` items."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from pipestate.runbook.criterion import Requirement, RequirementError, parse_requirement
from pipestate.runbook.directives import FORM as LENGTH
from pipestate.runbook.directives import KINDS, is_length, read_directives, with_length
from pipestate.runbook.files import beside
from pipestate.runbook.markdown import AgainItem, Fence, Task
from pipestate.runbook.model import (
    BESIDE,
    ON_PAGE,
    Again,
    Backfill,
    Check,
    Evidence,
    Findings,
    Level,
    Phase,
    SignOff,
    SqlBlock,
    View,
    is_id,
)
from pipestate.runbook.statement import tokens, without_semicolon

LEVELS = tuple(Level)


@dataclass(frozen=True, slots=True)
class BlockFile:
    """The file of a block: a runbook, or, with `page`, the SQLite variants of that runbook."""

    path: str
    page: str | None = None

    @property
    def dialect(self) -> str | None:
        return BESIDE if self.page else None


def read_block(fence: Fence, file: BlockFile, found: Findings) -> SqlBlock | None:
    """Read a SQL fence, and report its faults to `found`; return None for prose.

    A faulty block still returns a value, so that references to it cause no further findings.
    """
    directives = read_directives(fence, found)
    if directives is None:
        return None
    values = directives.values
    kind = _kind(values, fence.line, found)
    if kind is None:
        return None
    _report_values(kind, values, fence.line, found)
    _report_misplaced(kind, values, fence.line, file, found)
    seen = tokens(directives.sql, file.dialect)
    if seen and seen[-1].kind != "unclosed" and seen[-1].text != ";":
        found.add(fence.line, "the block does not end with a semicolon, so psql would wait for more: add it")
    sql = without_semicolon(directives.sql, file.dialect)
    return _made(kind, values, sql, fence.line, file, found)


def _made(
    kind: str, values: dict[str, str], sql: str, line: int, file: BlockFile, found: Findings
) -> SqlBlock:
    dialect = file.dialect or (ON_PAGE if "dialect" in values else None)
    block = f"{file.path}:{line}"
    if kind == "explains":
        return Evidence(_ids(kind, values[kind]), line, sql, dialect, block)
    if kind == "view":
        return View(values[kind], line, sql, dialect, values.get("from"), values.get("until"), block)
    if kind == "backfill":
        table, key = (_named(values, name, line, file, found) for name in ("table", "key"))
        return Backfill(values[kind], line, sql, table, key, dialect, block)
    return Check(
        id=values[kind],
        line=line,
        sql=sql,
        require=_requirement(values, line, file, found),
        level=Level.WARN if values.get("level") == Level.WARN else Level.BLOCK,
        dialect=dialect,
        from_=values.get("from"),
        until=values.get("until"),
        window=values.get("window"),
        block=block,
    )


def _kind(values: dict[str, str], line: int, found: Findings) -> str | None:
    kinds = [kind for kind in KINDS if kind in values]
    if not kinds:
        first = next(iter(values))
        kind = "backfill" if first in KINDS["backfill"] and first not in KINDS["check"] else "check"
        found.add(line, f"`-- {first}:` without `-- {kind}:`: name the {kind}, as `-- {kind}: its-id`")
    elif len(kinds) > 1:
        found.add(line, f"a block is one of {' and '.join(kinds)}, not both: split it into two blocks")
    return kinds[0] if len(kinds) == 1 else None


def _report_values(kind: str, values: dict[str, str], line: int, found: Findings) -> None:
    for id in _ids(kind, values[kind]):
        if values[kind] and not is_id(id):
            found.add(
                line, f"`-- {kind}: {id}`: an id is lower-case letters, digits and hyphens, as late-orders"
            )
    if values.get("level") and values["level"] not in LEVELS:
        found.add(line, f"`-- level: {values['level']}`: write {' or '.join(LEVELS)}")
    if values.get("window") and not is_length(values["window"]):
        found.add(line, f"`-- window: {values['window']}`: write {LENGTH}")
    for key in ("from", "until"):
        if len(values.get(key, "").split()) > 1:
            found.add(line, f"`-- {key}: {values[key]}`: write one revision, as ae10")


def _report_misplaced(kind: str, values: dict[str, str], line: int, file: BlockFile, found: Findings) -> None:
    for key in (key for key in values if key not in KINDS):
        if key not in KINDS[kind]:
            found.add(line, f"`-- {key}:` does not go with `-- {kind}:`: take the line out")
        elif file.page and key != "require":  # a variant may have a criterion of its own
            found.add(
                line, f"`-- {key}:` stands on the page, {file.page}, for both engines: take it out here"
            )
        elif key == "dialect" and values[key] and values[key] != ON_PAGE:
            advice = "write postgresql, where SQLite cannot hold this state, or nothing"
            if values[key] == BESIDE:
                advice = f"move it to {beside(file.path)}, under the same `## Phase:` and id"
            found.add(line, f"`-- dialect: {values[key]}`: {advice}")


def _named(values: dict[str, str], directive: str, line: int, file: BlockFile, found: Findings) -> str:
    """Read the table or key of a backfill; the runbook declares both, also for its variants."""
    from pipestate.runbook.update import names

    text, most = values.get(directive, ""), 2 if directive == "table" else 1
    example = "orders" if directive == "table" else "id"
    if directive not in values and not file.page:
        found.add(
            line, f"backfill {values['backfill']} names no {directive}: add `-- {directive}: {example}`"
        )
    elif text and not 1 <= len(names(text)) <= most:
        one = "one table, as orders or sales.orders" if most == 2 else "one column, as id"
        found.add(line, f"`-- {directive}: {text}`: write {one}; odd names go in double quotes")
    return text


def _ids(kind: str, text: str) -> tuple[str, ...]:
    """Split the ids: evidence may explain several checks, `-- explains: a, b`; other blocks have one id."""
    return tuple(id.strip() for id in text.split(",")) if kind == "explains" else (text,)


def _requirement(values: dict[str, str], line: int, file: BlockFile, found: Findings) -> Requirement:
    text = values.get("require", "")
    if "require" not in values and not file.page:
        found.add(line, f"check {values['check']} has no criterion: add `-- require: rows = 0` or the like")
    return _criterion(text, f"`-- require: {text}`", line, found) if text else Requirement(text, ())


def _criterion(text: str, where: str, line: int, found: Findings) -> Requirement:
    try:
        return parse_requirement(text)
    except RequirementError as error:
        found.add(line, f"{where}: {error}")
        return Requirement(text, ())


# Read a task-list item as a sign-off: the text, the number of people and the validity.


SIGNOFF_FORM = "- [ ] `restore-tested` (24h): what the person vouches for"

_SIGNOFF = re.compile(
    r"\[ \]\s+`(?P<id>[^`]*)`\s+\((?P<valid>[^(),]*)(?:,(?P<people>[^(),]*))?\):\s*(?P<text>.*\S)", re.DOTALL
)
_PEOPLE = re.compile(r"(?P<number>[1-9][0-9]?) (?:people|persons?)")
_TICKED = re.compile(r"\[[xX]\]\s+`(?P<id>[^`]*)`")
_DURATION = re.compile(r"(?P<number>[0-9]{1,5})(?P<unit>[mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def is_signoff(task: Task) -> bool:
    return _SIGNOFF.fullmatch(task.text) is not None


def read_signoff(task: Task, found: Findings) -> SignOff | None:
    """Read the sign-off of an item, and report its faults to `found`."""
    item = _SIGNOFF.fullmatch(task.text)
    if not item:
        fault = f"a task-list item in a phase is a sign-off: write `{SIGNOFF_FORM}`, or a plain list item without the box"
        if ticked := _TICKED.match(task.text):
            fault = (
                f"a ticked box signs nothing off: leave it `[ ]` and record the word with "
                f"`pipestate attest {ticked['id']} --by WHO`"
            )
        found.add(task.line, fault)
        return None
    id, valid_for = item["id"], duration(item["valid"])
    if not is_id(id):
        found.add(task.line, f"sign-off `{id}`: a name is lower-case letters, digits and hyphens")
    if not valid_for:
        found.add(task.line, f"sign-off {id} is valid for ({item['valid']}): write 30m, 24h or 7d")
    said = " ".join((item["people"] or "1 person").split())
    people = _PEOPLE.fullmatch(said)
    if not people:
        found.add(task.line, f"sign-off {id} is by ({said}): write how many, as (24h, 2 people)")
    number = int(people["number"]) if people else 1
    return SignOff(id, task.line, valid_for or timedelta(), " ".join(item["text"].split()), number)


def duration(text: str) -> timedelta | None:
    """Parse a positive time span; None for other text.

    >>> duration("24h")
    datetime.timedelta(days=1)
    """
    match = _DURATION.fullmatch(text.strip())
    if not match or not int(match["number"]):
        return None
    return timedelta(**{_UNITS[match["unit"]]: int(match["number"])})


# Repeated checks: `- again: `backfill/no-orphans`` runs a check of an earlier phase once more.
# The block is written once in the runbook; the item may change its criterion or its time span.


AGAIN_FORM = "- again: `phase/check`, requires `n = 0`, over `48 hours`: why"

_AGAIN = re.compile(r"again:\s*`(?P<phase>[^`/]*)/(?P<id>[^`/]*)`(?P<rest>.*)", re.IGNORECASE)
_CLAUSE = re.compile(r"\s*,\s*(?P<word>requires|over)\s+`(?P<value>[^`]*)`")
_END = re.compile(r"\s*(?::\s*\S.*)?")


def is_again(item: AgainItem) -> bool:
    return _AGAIN.fullmatch(" ".join(item.text.split())) is not None


def read_again(item: AgainItem, found: Findings) -> Again | None:
    """Read the item, and report its faults to `found`; a paragraph that reads like an item is a fault."""
    if not item.listed:
        if is_again(item):
            found.add(item.line, f"`again:` is read only as a list item: write `{AGAIN_FORM}`")
        return None
    said = _AGAIN.fullmatch(" ".join(item.text.split()))
    clauses = _clauses(said["rest"]) if said else None
    if said is None or clauses is None:
        found.add(
            item.line,
            "an item that begins with `again` asks a check of an earlier phase once more: write "
            f"`{AGAIN_FORM}`, of which the last three parts may be left out; prose begins with another word",
        )
        return None
    over = clauses.get("over")
    if over is not None and not is_length(over):
        found.add(item.line, f"again {said['phase']}/{said['id']}, over `{over}`: write {LENGTH}")
    require, text = None, clauses.get("requires")
    if text is not None:
        require = _criterion(text, f"requires `{text}`", item.line, found)
    return Again(said["id"], item.line, said["phase"], require, over)


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


def resolve_again(item: Again, earlier: Sequence[Phase], own: str, found: Findings) -> Iterator[Check]:
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
    window, over = check.window, item.over
    if over is None or window is None:
        return changed
    return replace(
        changed,
        sql=with_length(check.sql, window, over, check.dialect),
        evidence=tuple(
            replace(each, sql=with_length(each.sql, window, over, each.dialect)) for each in check.evidence
        ),
        window=over,
    )


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
