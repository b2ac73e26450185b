"""Editing `opens` and `until`: every form that front matter may have, and no byte outside of the phase."""

import pytest

from pipestate.core.errors import RunbookError
from pipestate.project.scaffold.contract import opened
from pipestate.runbook.lint import findings
from support.parsed import parse

PAGE = """---
runbook: orders
phases:
  # what comes first
  one: {from: "a1"}
  PHASE
---
# Orders   

## Phase: one

```sql
-- check: first
-- require: rows = 0
SELECT 1;
```

## Phase: ready

```sql
-- check: second
-- require: rows = 0
SELECT 2;
```
"""  # noqa: W291  a space at the end of a line must stay, too


def page(phase: str) -> str:
    return PAGE.replace("PHASE", phase)


def edited(text: str, *, ends: tuple[str, ...] = ("ready",)) -> str:
    runbook = parse(text, "orders.md")
    ready = next(phase for phase in runbook.phases if phase.name == "ready")
    return opened(text, runbook, ready, "c3", ends)


FORMS = {
    "ready:": 'ready: {until: "c3"}',
    "ready:  # soon": 'ready: {until: "c3"}  # soon',
    "ready: null": 'ready: {until: "c3"}',
    "ready: {}": 'ready: {until: "c3"}',
    'ready: {from: "a1"}  # why': 'ready: {from: "a1", until: "c3"}  # why',
    'ready: {from: "a1",}': 'ready: {from: "a1", until: "c3"}',
    "ready: {opens: ['b2'], until: 'b2'}": 'ready: {until: "c3", opens: ["b2", "c3"]}',
    'ready: {opens: ["b2", ]}': 'ready: {until: "c3", opens: ["b2", "c3"]}',
    'ready:\n    from: "a1"  # why': 'ready: {from: "a1", until: "c3"}  # why',
    'ready:\n    opens:\n      - "b2"  # the last\n': 'ready: {until: "c3", opens: ["b2", "c3"]}  # the last\n',
    'ready:\n    from: "a1"\n    opens:\n    - "b2"': 'ready: {from: "a1", until: "c3", opens: ["b2", "c3"]}',
}


@pytest.mark.parametrize(("before", "after"), FORMS.items())
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_only_the_phase_changes(before: str, after: str, newline: str) -> None:
    text = page(before).replace("\n", newline)
    changed = edited(text)
    assert changed == page(after).replace("\n", newline)
    assert findings(changed, "orders.md") == []


def test_phases_that_end_with_it_get_their_until() -> None:
    changed = edited(page("ready:"), ends=("one", "ready"))
    assert '  one: {from: "a1", until: "c3"}\n  ready: {until: "c3"}\n' in changed


def test_a_phase_with_an_end_of_its_own_keeps_it() -> None:
    changed = edited(page('ready: {until: "z9", opens: ["b2"]}'), ends=())
    assert '  ready: {until: "z9", opens: ["b2", "c3"]}\n' in changed


def test_a_byte_order_mark_stays() -> None:
    assert edited("\ufeff" + page("ready:")) == "\ufeff" + page('ready: {until: "c3"}')


@pytest.mark.parametrize("phase", ["ready: *one", 'ready:\n    from: "a1"  # why\n    opens: ["b2"]'])
def test_what_cannot_be_edited_safely_is_said(phase: str) -> None:
    """An anchor would carry the change into the other phase; a comment would be lost."""
    text = page(phase).replace('one: {from: "a1"}', 'one: &one {from: "a1"}')
    with pytest.raises(
        RunbookError, match=r'orders.md:\d+: .* write \{.*until: "c3".*\} for phase ready yourself'
    ):
        edited(text)
