"""What `init` and `revision` say: the files, what to paste, and what comes next."""

import difflib
from collections.abc import Iterable, Sequence

from pipestate.chain.calls import Calls
from pipestate.chain.project import Named
from pipestate.paths import from_here
from pipestate.safe import plain_lines
from pipestate.scaffold.contract import Contracted
from pipestate.scaffold.draft import Draft
from pipestate.scaffold.start import Started

GUARD = """
In {env}, below `from alembic import context`:

    from pipestate.environment import guard

    guard(context)
"""
CI = """
In CI:

    {lint}

Every day, on the real database:

    {record}
"""


def written(drafts: Sequence[Draft]) -> str:
    """List the files that were written."""
    return "\n".join(f"{'changed' if draft.replaces else 'wrote'} {draft.path}" for draft in drafts)


def shown(drafts: Sequence[Draft]) -> str:
    """Show the files of a dry run; of one that is there already, the difference."""
    parts = []
    for draft in drafts:
        if draft.replaces is None:
            parts.append(f"would write {draft.path}:\n\n{_indented(draft.text.splitlines())}")
        else:
            before, after = draft.replaces.splitlines(), draft.text.splitlines()
            changed = list(difflib.unified_diff(before, after, lineterm="", n=0))[3:]
            parts.append(f"would change {draft.path}:\n\n{_indented(changed)}")
    return plain_lines("\n".join([*parts, "Nothing was written."]))


def advice(started: Started, named: Named) -> str:
    """Say what is left to a person after `init`."""
    calls = Calls(named)
    guard = "" if started.guarded else GUARD.format(env=from_here(started.env))
    ci = CI.format(lint=calls.pipestate("runbook lint"), record=calls.pipestate("verify --record"))
    return f"{guard}{ci}\nNext: write the checks of {started.page}, then {calls.alembic('upgrade head')}"


def next_step(drafted: Contracted, named: Named) -> str:
    """Say what the page says now, and how to find out whether the contract may run."""
    calls, phase = Calls(named), drafted.phase.name
    until = " and ends with it" if phase in drafted.ends else ""
    ends = [name for name in drafted.ends if name != phase]
    gate = calls.pipestate(f"gate {drafted.runbook.name}/{phase}")
    return (
        f"  {phase} opens {drafted.revision}{until}\n"
        f"{_said(ends, 'ends with it, too', 'end with it, too')}"
        f"{_said(drafted.stays, 'goes on after it', 'go on after it')}\n"
        f"Next: {gate}\n"
        f"and once that is open: {calls.alembic('upgrade head')}"
    )


def _said(phases: Sequence[str], one: str, several: str) -> str:
    return f"  {', '.join(phases)} {one if len(phases) == 1 else several}\n" if phases else ""


def _indented(lines: Iterable[str]) -> str:
    return "".join(f"    {line}".rstrip() + "\n" for line in lines)
