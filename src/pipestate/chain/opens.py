"""`opens` is a promise: a revision that a page opens must exist, and must ask that gate."""

from collections.abc import Iterable, Iterator

from pipestate.chain.calls import Calls
from pipestate.chain.graph import Chain, Revision
from pipestate.chain.project import Named
from pipestate.errors import ConfigError
from pipestate.paths import from_here
from pipestate.runbook.finding import Finding
from pipestate.runbook.model import Phase, Runbook


def broken_opens(chain: Chain, runbooks: Iterable[Runbook]) -> list[Finding]:
    """Find the phases whose `opens` names a revision that does not exist, or does not ask this gate."""
    return [
        Finding(runbook.path, phase.line, message)
        for runbook in runbooks
        for phase in runbook.phases
        for message in _broken(chain, runbook, phase)
    ]


def refuse_broken_opens(chain: Chain, runbooks: Iterable[Runbook], named: Named) -> None:
    """Raise ConfigError with the first finding: a gate that nobody asks would be shown as one that holds."""
    found = broken_opens(chain, runbooks)
    if found:
        lint = Calls(named).pipestate("runbook lint")
        more = f" ({len(found) - 1} more: {lint})" if len(found) > 1 else ""
        raise ConfigError(f"{found[0]}{more}")


def _broken(chain: Chain, runbook: Runbook, phase: Phase) -> Iterator[str]:
    for name in phase.opens:
        if name not in chain:
            yield (
                f"phase {phase.name} opens {name}, a revision that the chain does not have: "
                "correct `opens` in the front matter"
            )
        elif not asks(chain.by_id[name], runbook, phase):
            where = f"{from_here(chain.by_id[name].path)}:{chain.by_id[name].line}"
            yield (
                f'phase {phase.name} opens {name}, but {where} does not ask this gate: write gate("{runbook.name}/'
                f'{phase.name}", ...) or Contract(...) there, with the phase as a literal, or take {name} out of `opens`'
            )


def asks(revision: Revision, runbook: Runbook, phase: Phase) -> bool:
    return bool({phase.name, f"{runbook.name}/{phase.name}"} & set(revision.gates))
