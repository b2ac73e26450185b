"""A task-list item into a sign-off: how many people vouch for what, and for how long it holds."""

import re
from datetime import timedelta

from pipestate.runbook.finding import Findings
from pipestate.runbook.markdown import Task
from pipestate.runbook.model import SignOff, is_id

FORM = "- [ ] `restore-tested` (24h): what the person vouches for"

_ITEM = re.compile(
    r"\[ \]\s+`(?P<id>[^`]*)`\s+\((?P<valid>[^(),]*)(?:,(?P<people>[^(),]*))?\):\s*(?P<text>.*\S)", re.DOTALL
)
_PEOPLE = re.compile(r"(?P<number>[1-9][0-9]?) (?:people|persons?)")
_TICKED = re.compile(r"\[[xX]\]\s+`(?P<id>[^`]*)`")
_DURATION = re.compile(r"(?P<number>[0-9]{1,5})(?P<unit>[mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def is_signoff(task: Task) -> bool:
    return _ITEM.fullmatch(task.text) is not None


def read_signoff(task: Task, found: Findings) -> SignOff | None:
    """The sign-off of an item; whatever is wrong with it goes to `found`."""
    item = _ITEM.fullmatch(task.text)
    if not item:
        found.add(task.line, _advice(task.text))
        return None
    id, valid_for = item["id"], duration(item["valid"])
    if not is_id(id):
        found.add(task.line, f"sign-off `{id}`: a name is lower-case letters, digits and hyphens")
    if not valid_for:
        found.add(task.line, f"sign-off {id} is valid for ({item['valid']}): write 30m, 24h or 7d")
    people = _people(item["people"])
    if people is None:
        found.add(
            task.line, f"sign-off {id} is by ({item['people'].strip()}): write how many, as (24h, 2 people)"
        )
    return SignOff(id, task.line, valid_for or timedelta(), " ".join(item["text"].split()), people or 1)


def _people(text: str | None) -> int | None:
    if text is None:
        return 1
    said = _PEOPLE.fullmatch(" ".join(text.split()))
    return int(said["number"]) if said else None


def duration(text: str) -> timedelta | None:
    """A positive length of time, or None.

    >>> duration("24h")
    datetime.timedelta(days=1)
    """
    match = _DURATION.fullmatch(text.strip())
    if not match or not int(match["number"]):
        return None
    return timedelta(**{_UNITS[match["unit"]]: int(match["number"])})


def _advice(text: str) -> str:
    if ticked := _TICKED.match(text):
        return (
            f"a ticked box signs nothing off: leave it `[ ]` and record the word with "
            f"`pipestate attest {ticked['id']} --by WHO`"
        )
    return f"a task-list item in a phase is a sign-off: write `{FORM}`, or a plain list item without the box"
