"""Read the parts of a phase: fenced SQL blocks, sign-offs, and `again` items."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from pipestate.core.errors import ConfigError
from pipestate.core.text import parse_age
from pipestate.runbook.criterion import Requirement, RequirementError, parse_requirement
from pipestate.runbook.directives import FORM as LENGTH
from pipestate.runbook.directives import KINDS, is_length, read_directives, with_length
from pipestate.runbook.files import beside
from pipestate.runbook.markdown import AgainItem, Fence, Task
from pipestate.runbook.model import (
    POSTGRESQL,
    SQLITE,
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


def read_block(fence: Fence, found: Findings, runbook: str | None = None) -> SqlBlock | None:
    """Read a SQL fence, and report its faults to `found`; return None for prose.

    `runbook` is the runbook's path if the fence is in its SQLite variants. A faulty block still returns a value, so
    that references to it cause no further findings.
    """
    if (read := read_directives(fence, found)) is None:
        return None
    values, text = read
    kinds, line = [kind for kind in KINDS if kind in values], fence.line
    if not kinds:
        first = next(iter(values))
        kind = "backfill" if first in KINDS["backfill"] and first not in KINDS["check"] else "check"
        found.add(line, f"`-- {first}:` without `-- {kind}:`: name the {kind}, as `-- {kind}: its-id`")
        return None
    if len(kinds) > 1:
        found.add(line, f"a block is one of {' and '.join(kinds)}, not both: split it into two blocks")
        return None
    (kind,) = kinds
    for fault in (*_faulty_values(kind, values), *_misplaced(kind, values, found.path, runbook)):
        found.add(line, fault)
    dialect = SQLITE if runbook else None
    seen = tokens(text, dialect)
    if seen and seen[-1].kind != "unclosed" and seen[-1].text != ";":
        found.add(line, "the block does not end with a semicolon, so psql would wait for more: add it")
    sql = without_semicolon(text, dialect)
    return _made(kind, values, sql, line, found, runbook)


def _made(
    kind: str, values: dict[str, str], sql: str, line: int, found: Findings, runbook: str | None
) -> SqlBlock:
    dialect = SQLITE if runbook else POSTGRESQL if "dialect" in values else None
    block, from_, until = f"{found.path}:{line}", values.get("from"), values.get("until")
    if kind == "explains":
        return Evidence(_ids(kind, values[kind]), line, sql, dialect, block)
    if kind == "view":
        return View(values[kind], line, sql, dialect, from_, until, block)
    if kind == "backfill":
        for name, example in (("table", "orders"), ("key", "id")):
            if name not in values and not runbook:
                found.add(line, f"backfill {values[kind]} names no {name}: add `-- {name}: {example}`")
        return Backfill(
            values[kind], line, sql, values.get("table", ""), values.get("key", ""), dialect, block
        )
    text = values.get("require", "")
    if "require" not in values and not runbook:
        found.add(line, f"check {values[kind]} has no criterion: add `-- require: rows = 0` or the like")
    require = _criterion(text, f"`-- require: {text}`", line, found) if text else Requirement(text, ())
    level = Level.WARN if values.get("level") == Level.WARN else Level.BLOCK
    window = values.get("window")
    return Check(values[kind], line, sql, require, level, dialect, from_, until, (), window, block)


def _faulty_values(kind: str, values: dict[str, str]) -> Iterator[str]:
    for id in _ids(kind, values[kind]):
        if values[kind] and not is_id(id):
            yield f"`-- {kind}: {id}`: an id is lower-case letters, digits and hyphens, as late-orders"
    for key in (key for key in values if values[key]):
        if form := _right_form(key, values[key]):
            yield f"`-- {key}: {values[key]}`: write {form}"


def _right_form(key: str, value: str) -> str | None:
    """Describe the form of a directive's value; None if the value has it."""
    if key == "level":
        return None if value in tuple(Level) else " or ".join(Level)
    if key == "window":
        return None if is_length(value) else LENGTH
    if key in ("from", "until"):
        return None if len(value.split()) == 1 else "one revision, as ae10"
    if key in KINDS["backfill"] and key != "dialect":
        from pipestate.runbook.update import names

        one, most = (
            ("one table, as orders or sales.orders", 2) if key == "table" else ("one column, as id", 1)
        )
        return None if 1 <= len(names(value)) <= most else f"{one}; odd names go in double quotes"
    return None


def _misplaced(kind: str, values: dict[str, str], path: str, runbook: str | None) -> Iterator[str]:
    for key in (key for key in values if key not in KINDS):
        if key not in KINDS[kind]:
            yield f"`-- {key}:` is not allowed in a block with `-- {kind}:`: take the line out"
        elif runbook and key != "require":  # a variant may have a criterion of its own
            yield f"`-- {key}:` applies from the runbook, {runbook}, to both engines: take it out here"
        elif key == "dialect" and values[key] and values[key] != POSTGRESQL:
            advice = "write postgresql, where SQLite cannot hold this state, or nothing"
            if values[key] == SQLITE:
                advice = f"move it into the file {beside(path)}, under the same `## Phase:` and id"
            yield f"`-- dialect: {values[key]}`: {advice}"


def _ids(kind: str, text: str) -> tuple[str, ...]:
    """Split the ids: evidence may explain several checks, `-- explains: a, b`; other blocks have one id."""
    return tuple(id.strip() for id in text.split(",")) if kind == "explains" else (text,)


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
# A box with a name in backticks, or with a validity; other items with a box are prose.
_LIKE_ONE = re.compile(r"\[[^\]]*\][\s*_]*`|[^(]*\(\s*\d+\s*[mhd]\s*[,)]")
_TICKED = re.compile(r"\[[xX]\]\s+`(?P<id>[^`]*)`")


def is_signoff(task: Task) -> bool:
    return _SIGNOFF.fullmatch(task.text) is not None


def read_signoff(task: Task, found: Findings) -> SignOff | None:
    """Read the sign-off of an item, and report its faults to `found`; an item without a name is prose."""
    item = _SIGNOFF.fullmatch(task.text)
    if not item:
        if not _LIKE_ONE.match(task.text):
            return None
        fault = f"a task-list item in a phase is a sign-off: write `{SIGNOFF_FORM}`, or a plain list item without the box"
        if ticked := _TICKED.match(task.text):
            fault = (
                f"a ticked box is not a sign-off: leave it `[ ]` and record the sign-off with "
                f"`pipestate attest {ticked['id']} --by WHO`"
            )
        found.add(task.line, fault)
        return None
    id, valid_for = item["id"], timedelta()
    with suppress(ConfigError):
        valid_for = parse_age(item["valid"])
    if not is_id(id):
        found.add(task.line, f"sign-off `{id}`: a name is lower-case letters, digits and hyphens")
    if not valid_for:
        found.add(task.line, f"sign-off {id} is valid for ({item['valid']}): write 30m, 24h or 7d")
    said = " ".join((item["people"] or "1 person").split())
    people = _PEOPLE.fullmatch(said)
    if not people:
        found.add(task.line, f"sign-off {id} is by ({said}): write how many, as (24h, 2 people)")
    number = int(people["number"]) if people else 1
    return SignOff(id, task.line, valid_for, " ".join(item["text"].split()), number)


# Repeated checks: `- again: `backfill/no-orphans`` runs a check of an earlier phase once more.
# The block is written once in the runbook; the item may change its criterion or its time span.


AGAIN_FORM = "- again: `phase/check`, requires `n = 0`, over `48 hours`: why"

_ADDRESS = r"again:\s*`(?P<phase>[^`/]*)/(?P<id>[^`/]*)`"
_AGAIN = re.compile(
    _ADDRESS + r"(?!\s*,\s*(?P<word>\w+)\s+`[^`]*`\s*,\s*(?P=word)\s)"
    r"(?:\s*,\s*(?:requires\s+`\s*(?P<requires>[^`]*?)\s*`|over\s+`\s*(?P<over>[^`]*?)\s*`)){0,2}(?:\s*:\s*\S.*|\s*)",
    re.IGNORECASE,
)


def is_again(item: AgainItem) -> bool:
    return re.match(_ADDRESS, " ".join(item.text.split()), re.IGNORECASE) is not None


def read_again(item: AgainItem, found: Findings) -> Again | None:
    """Read the item, and report its faults to `found`; a paragraph that reads like an item is a fault."""
    if not item.listed:
        if is_again(item):
            found.add(item.line, f"`again:` is read only as a list item: write `{AGAIN_FORM}`")
        return None
    said = _AGAIN.fullmatch(" ".join(item.text.split()))
    if said is None:
        found.add(
            item.line,
            "an item that begins with `again` repeats a check of an earlier phase: write "
            f"`{AGAIN_FORM}`, of which the last three parts may be left out; prose begins with another word",
        )
        return None
    over, text = said["over"], said["requires"]
    if over is not None and not is_length(over):
        found.add(item.line, f"again {said['phase']}/{said['id']}, over `{over}`: write {LENGTH}")
    require = None if text is None else _criterion(text, f"requires `{text}`", item.line, found)
    return Again(said["id"], item.line, said["phase"], require, over)


def resolve_again(item: Again, earlier: Sequence[Phase], found: Findings) -> Iterator[Check]:
    """Apply the item's changes to the check of an earlier phase; yield one check per engine variant."""
    checks = [
        (f"{phase.name}/{check.id}", check)
        for phase in earlier
        for check in phase.checks
        if isinstance(check, Check) and check.again is None
    ]
    known = dict.fromkeys(address for address, _ in checks)
    if item.address not in known:
        there = ", ".join(known) or "none"
        found.add(item.line, f"again {item.address}: no earlier phase has such a check; there are {there}")
    for check in (check for address, check in checks if address == item.address):
        changed = replace(check, line=item.line, again=item.address, require=item.require or check.require)
        window, over = check.window, item.over
        if over is not None and window is None:
            found.add(
                item.line,
                f"again {item.address}, over `{over}`: its block has no `-- window:` that `over` could replace: add "
                "one with the length in its SQL",
            )
        elif over is not None and window is not None:
            sql = with_length(check.sql, window, over, check.dialect)
            evidence = (
                replace(each, sql=with_length(each.sql, window, over, each.dialect))
                for each in check.evidence
            )
            changed = replace(changed, sql=sql, evidence=tuple(evidence), window=over)
        yield changed
