"""A fenced SQL block into a check, an evidence or a view."""

from pipestate.runbook.directives import KINDS, read_directives
from pipestate.runbook.finding import Findings
from pipestate.runbook.markdown import Fence
from pipestate.runbook.model import DIALECTS, Check, Evidence, Level, View, is_id
from pipestate.runbook.require import Requirement, RequirementError, parse_requirement
from pipestate.runbook.statement import without_semicolon

LEVELS = tuple(Level)


def read_block(fence: Fence, found: Findings) -> Check | Evidence | View | None:
    """What a SQL fence is; None for prose. Whatever is wrong with it goes to `found`.

    A faulty block still gives a value, so that what refers to it is not reported as well.
    """
    directives = read_directives(fence, found)
    if directives is None:
        return None
    values = directives.values
    kind = _kind(values, fence.line, found)
    if kind is None:
        return None
    _check_values(kind, values, fence.line, found)
    sql = without_semicolon(directives.sql, values.get("dialect"))
    if kind == "explains":
        return Evidence(_ids(kind, values[kind]), fence.line, sql, values.get("dialect"))
    if kind == "view":
        return _view(values, sql, fence.line)
    return _check(values, sql, fence.line, found)


def _kind(values: dict[str, str], line: int, found: Findings) -> str | None:
    kinds = [kind for kind in KINDS if kind in values]
    if not kinds:
        found.add(
            line, f"`-- {next(iter(values))}:` without `-- check:`: name the check, as `-- check: its-id`"
        )
    elif len(kinds) > 1:
        found.add(line, f"a block is one of {' and '.join(kinds)}, not both: split it into two blocks")
    return kinds[0] if len(kinds) == 1 else None


def _check_values(kind: str, values: dict[str, str], line: int, found: Findings) -> None:
    for id in _ids(kind, values[kind]):
        if values[kind] and not is_id(id):
            found.add(
                line, f"`-- {kind}: {id}`: an id is lower-case letters, digits and hyphens, as stuck-sites"
            )
    for key, allowed in (("dialect", DIALECTS), ("level", LEVELS)):
        if values.get(key) and values[key] not in allowed:
            found.add(line, f"`-- {key}: {values[key]}`: write {' or '.join(allowed)}")
    for key in ("from", "until"):
        if len(values.get(key, "").split()) > 1:
            found.add(line, f"`-- {key}: {values[key]}`: write one revision, as 0006")
    for key in values:
        if key not in KINDS and key not in KINDS[kind]:
            found.add(line, f"`-- {key}:` does not go with `-- {kind}:`: take the line out")


def _ids(kind: str, text: str) -> tuple[str, ...]:
    """Evidence may be that of several checks, `-- explains: a, b`; everything else has one id."""
    return tuple(id.strip() for id in text.split(",")) if kind == "explains" else (text,)


def _check(values: dict[str, str], sql: str, line: int, found: Findings) -> Check:
    return Check(
        id=values["check"],
        line=line,
        sql=sql,
        require=_requirement(values, line, found),
        level=Level.WARN if values.get("level") == Level.WARN else Level.BLOCK,
        dialect=values.get("dialect"),
        from_=values.get("from"),
        until=values.get("until"),
    )


def _view(values: dict[str, str], sql: str, line: int) -> View:
    return View(values["view"], line, sql, values.get("dialect"), values.get("from"), values.get("until"))


def _requirement(values: dict[str, str], line: int, found: Findings) -> Requirement:
    text = values.get("require", "")
    try:
        return parse_requirement(text)
    except RequirementError as error:
        if text:
            found.add(line, f"`-- require: {text}`: {error.what}")
    if "require" not in values:
        found.add(line, f"check {values['check']} has no criterion: add `-- require: rows = 0` or the like")
    return Requirement(text, ())
