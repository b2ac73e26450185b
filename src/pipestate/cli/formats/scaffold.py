"""Output of `init` and `revision`: the files, lines to paste, and the next steps."""

import difflib
from collections.abc import Iterable, Sequence

from pipestate.core.text import from_here, plain_lines
from pipestate.project.find import Calls, Named
from pipestate.project.scaffold.contract import Contracted
from pipestate.project.scaffold.draft import Draft
from pipestate.project.scaffold.revision import Started

GUARD = """
In {env}, below `from alembic import context`:

    from pipestate.environment import guard

    guard(context)
"""
PER_MIGRATION = """
In {env}, as an argument of context.configure(...), so that a closed gate keeps the revisions before it:

    transaction_per_migration=True,
"""
CI = """
In CI:

    {lint}

Every day, on the real database:

    {record}
"""


def written(drafts: Sequence[Draft]) -> str:
    """List the written files."""
    return "\n".join(f"{'changed' if draft.replaces else 'wrote'} {draft.path}" for draft in drafts)


def shown(drafts: Sequence[Draft]) -> str:
    """Show the files of a dry run; of an existing file, the difference."""
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
    """List the manual steps after `init`."""
    calls = Calls(named)
    pasted = ("" if started.guarded else GUARD) + ("" if started.per_migration else PER_MIGRATION)
    guard = pasted.format(env=from_here(started.env))
    ci = CI.format(lint=calls.pipestate("runbook lint"), record=calls.pipestate("verify --record"))
    return f"{guard}{ci}\nNext: write the checks of {started.page}, then {calls.alembic('upgrade head')}"


def next_step(drafted: Contracted, named: Named) -> str:
    """Describe the runbook's new text, and the command that evaluates the contract's gate."""
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
