"""`python -m pipestate.fleet.worker`: upgrades one tenant after another, and reports each on stdout.

1. Read the job from stdin: the project and the target revision.
2. For each further line, upgrade that tenant through the project's env.py, and write one line about it.
3. End when stdin closes, hence also when the parent process ends. The current tenant is finished first.

Output of env.py and the revisions is written to stderr. Alembic keeps its state in modules, so each worker is a
process. It loads the project once: later tenants take a fraction of the first one's time.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from pipestate.core.errors import PipestateError, Unreachable
from pipestate.database.urls import as_env_py_wants, parse_url, without_secrets
from pipestate.migration.failure import explain
from pipestate.migration.upgrade import OtherDatabase, Upgrade, make_upgrade, upgrade, url_for_env_py
from pipestate.project.find import find_described
from pipestate.project.graph import find_targets
from pipestate.project.revision_files import read_chain
from pipestate.project.version_table import locator


@dataclass(frozen=True, slots=True)
class Worker:
    """A loaded project; `plan` holds the settings that all its tenants share."""

    plan: Upgrade
    wanted: Sequence[str]
    environ: Mapping[str, str]

    def upgrade(self, url: URL, path: Sequence[str], arguments: Sequence[str]) -> dict[str, Any]:
        """Upgrade a tenant; any error becomes its answer."""
        os.environ.update(self._names(url))
        locate = self.plan.locate.within(path[0]) if path else self.plan.locate
        on = replace(self.plan, url=url, locate=locate, path=tuple(path), arguments=tuple(arguments))
        try:
            done = upgrade(on, self.wanted)
        except OtherDatabase as error:
            return {"error": str(error), "exit_code": error.exit_code, "is_other": True}
        except PipestateError as error:
            return {"error": str(error), "exit_code": error.exit_code}
        except DBAPIError as error:
            return {"error": explain(error, url), "exit_code": Unreachable.exit_code}
        except (Exception, SystemExit) as error:  # env.py and revisions raise many types
            said = without_secrets(f"{type(error).__name__}: {error}", url)
            return {"error": said, "exit_code": Unreachable.exit_code}
        waiting = [
            {"revision": revision, "gate": f"{runbook.name}/{phase.name}"}
            for revision, closed in done.closed.items()
            for runbook, phase in closed.report.phases()
        ]
        return {
            "applied": done.applied,
            "waiting": waiting,
            "held": done.held,
            "held_ungated": done.held_ungated,
        }

    def _names(self, url: URL) -> dict[str, str]:
        """Set the variables that name the tenant's database, with the project's own driver."""
        named = {}
        for name in ("PIPESTATE_DATABASE_URL", "DATABASE_URL"):
            own = self.environ.get(name)
            spelt = as_env_py_wants(url, own) if own else url_for_env_py(self.plan.project, url)
            named[name] = spelt.render_as_string(hide_password=False)
        return named


def main() -> int:
    """Process jobs until stdin ends."""
    tell = _teller()
    job = json.loads(sys.stdin.readline())
    worker = _load(job)
    for line in sys.stdin:
        tenant = json.loads(line)
        tell(worker.upgrade(parse_url(tenant["url"]), tenant["path"], tenant["arguments"]))
    return 0


def _load(job: Mapping[str, Any]) -> Worker:
    project = find_described(job["project"])
    chain = read_chain(project)
    locate = locator(project, chain, job["version_table"])
    nowhere = parse_url("postgresql://")
    plan = make_upgrade(project, chain, locate, nowhere)
    return Worker(plan, find_targets(chain, job["target"]), dict(os.environ))


def _teller() -> Callable[[Mapping[str, Any]], None]:
    """Reserve stdout for answers; redirect other output to stderr."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(answer: Mapping[str, Any]) -> None:
        channel.write(json.dumps(answer) + "\n")
        channel.flush()

    return tell


if __name__ == "__main__":
    sys.exit(main())
