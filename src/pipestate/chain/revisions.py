"""What pages say of revisions: those that they name must exist, and one that a page opens must ask that gate."""

from collections.abc import Container, Iterable, Iterator

from pipestate.chain.calls import Calls
from pipestate.chain.graph import Chain, Revision
from pipestate.chain.project import Named
from pipestate.errors import ConfigError
from pipestate.paths import from_here
from pipestate.runbook.finding import Finding
from pipestate.runbook.model import Check, Phase, Runbook, View, is_variant


def names_revisions(runbook: Runbook) -> bool:
    """Tell whether a page says anything that the chain could contradict."""
    return any(unknown_revisions(runbook, phase, known=()) for phase in runbook.phases)


def wrong_revisions(chain: Chain, runbooks: Iterable[Runbook]) -> list[Finding]:
    """Find what names a revision that does not exist, and in `opens` one that does not ask this gate."""
    return [
        finding
        for runbook in runbooks
        for phase in runbook.phases
        for finding in (*unknown_revisions(runbook, phase, known=chain), *_unasked(chain, runbook, phase))
    ]


def refuse_wrong_revisions(chain: Chain, runbooks: Iterable[Runbook], named: Named) -> None:
    """Raise ConfigError with the first finding: a gate that nobody asks would be shown as one that holds."""
    found = wrong_revisions(chain, runbooks)
    if found:
        lint = Calls(named).pipestate("runbook lint")
        more = f" ({len(found) - 1} more: {lint})" if len(found) > 1 else ""
        raise ConfigError(f"{found[0]}{more}")


def unknown_revisions(runbook: Runbook, phase: Phase, known: Container[str]) -> list[Finding]:
    """Find the revisions in a phase's front matter and in its blocks that are not among the known ones."""
    found = [
        Finding(
            runbook.path, phase.line, f"phase {phase.name} {says}: correct `{key}` in the front matter, {_OR}"
        )
        for key, says in _unknown_to_phase(phase, known)
    ]
    for block in (*phase.checks, *phase.views):
        for key, revision in (("from", block.from_), ("until", block.until)):
            if revision is not None and revision not in known:
                found += _in_block(block, f"`-- {key}: {revision}` names {_MISSING}: correct it, {_OR}")
    return sorted(set(found))


_MISSING = "a revision that the chain does not have"
_OR = "or name the right alembic.ini with --config"


def _unknown_to_phase(phase: Phase, known: Container[str]) -> Iterator[tuple[str, str]]:
    said = [("from", "begins at", phase.from_), ("until", "ends at", phase.until)]
    said += [("opens", "opens", revision) for revision in phase.opens]
    for key, verb, revision in said:
        if revision is not None and revision not in known:
            yield key, f"{verb} {revision}, {_MISSING}"


def _in_block(block: object, what: str) -> Iterator[Finding]:
    """Place a finding at the block of the page: a variant beside it has its revisions from there."""
    if isinstance(block, Check | View) and not is_variant(block):
        path, _, line = block.block.rpartition(":")
        yield Finding(path, int(line), f"{'view' if isinstance(block, View) else 'check'} {block.id}: {what}")


def _unasked(chain: Chain, runbook: Runbook, phase: Phase) -> Iterator[Finding]:
    for name in phase.opens:
        if name in chain and not asks(chain.by_id[name], runbook, phase):
            where = f"{from_here(chain.by_id[name].path)}:{chain.by_id[name].line}"
            yield Finding(
                runbook.path,
                phase.line,
                f'phase {phase.name} opens {name}, but {where} does not ask this gate: write gate("{runbook.name}/'
                f'{phase.name}", ...) or Contract(...) there, with the phase as a literal, or take {name} out of `opens`',
            )


def asks(revision: Revision, runbook: Runbook, phase: Phase) -> bool:
    return bool({phase.name, f"{runbook.name}/{phase.name}"} & set(revision.gates))
