"""On a hot standby everything that only reads works, says how old it may be, and writes are refused in a sentence."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from attacks.sessions import is_running, wait_until
from pipestate.core.errors import Unreachable
from pipestate.database.embedded import embedded_server
from support.fleets import APPROVAL, evaluate_list, project_in
from support.programs import run_program
from support.runbook_samples import block, page, run, write
from support.servers import Database, memory
from support.shop_project import Shop, open_shop
from support.standby import catch_up, standby_of

pytestmark = pytest.mark.scene

REFUSED = "takes no writes: it is a standby, or a setting or this role is read-only; name the primary, or another role"
WORK = """---
runbook: work
phases:
  work: {from: "b2"}
---
# Work

## Phase: work

- [ ] `looked` (24h): Somebody looked at it.

```sql
-- backfill: status
-- table: orders
-- key: id
UPDATE orders SET status = 'new' WHERE id BETWEEN :first AND :last AND status IS NULL;
```
"""


@dataclass(frozen=True)
class Pair:
    """A primary and its standby, with the same database on each."""

    shop: Shop
    primary: Database
    standby: Database

    def pipestate(self, *arguments: str) -> tuple[int, str, str]:
        """Run a command on the standby."""
        argv = ["pipestate", *arguments, "--database-url", self.standby.text]
        done = run_program(argv, cwd=self.shop.root, environment=os.environ)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with embedded_server(within=memory()) as url, standby_of(url) as other:
        primary, standby = Database(url), Database(other)
        shop = open_shop(tmp_path_factory.mktemp("standby"), primary)
        shop.upgrade("b2")
        shop.fill()
        primary.run(APPROVAL)
        catch_up(primary, standby)
        yield Pair(shop, primary, standby)
        for database in (primary, standby):
            database.engine.dispose()


@pytest.fixture(scope="module")
def at_work(pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """The same, with a page that has a sign-off and a backfill."""
    shop = open_shop(tmp_path_factory.mktemp("work"), pair.primary)
    (shop.root / "runbooks" / "work.md").write_text(WORK)
    return replace(pair, shop=shop)


@pytest.mark.parametrize("command", ["verify", "verify --jobs 3", "gate shop/ready", "verify --format junit"])
def test_checks_hold_on_a_standby_as_on_its_primary(pair: Pair, command: str) -> None:
    code, _, stderr = pair.pipestate(*command.split())
    assert code == 0, stderr
    assert "warning: this is a standby: it shows what it has replayed" in stderr


@pytest.mark.parametrize("command", ["plan", "status", "history", "verify --json"])
def test_what_only_reads_works(pair: Pair, command: str) -> None:
    code, stdout, stderr = pair.pipestate(*command.split())
    assert code == 0, stderr
    assert stdout


@pytest.mark.parametrize(
    "command",
    [
        "verify --record",
        "observe --set depth=1",
        "attest looked --by ops",
        "backfill work/status",
        "upgrade",
        "ledger install",
    ],
)
def test_what_writes_is_refused_with_one_sentence(at_work: Pair, command: str) -> None:
    code, _, stderr = at_work.pipestate(*command.split())
    said = [line for line in stderr.splitlines() if line.startswith("pipestate: ")]
    assert code == 3
    assert len(said) == 1
    assert REFUSED in said[0]


def test_a_purge_finds_nothing_that_it_could_drop(pair: Pair) -> None:
    code, _, stderr = pair.pipestate("purge", "--older-than", "1m", "--yes")
    assert (code, stderr) == (0, "nothing was soft-dropped longer than 1m ago\n")


@pytest.mark.parametrize("environment", [None, "per_migration"])
def test_alembic_is_refused_with_the_same_sentence(
    pair: Pair, tmp_path: Path, environment: str | None
) -> None:
    shop = open_shop(tmp_path, pair.standby, environment)
    done = run_program(["alembic", "upgrade", "head"], cwd=shop.root, environment=os.environ)
    assert done.returncode == 255
    assert REFUSED in done.stderr
    assert pair.shop.version() == "b2"


def test_a_fleet_may_hold_both(pair: Pair) -> None:
    project = project_in(pair.shop.root)
    lines = [f"primary = {pair.primary.text}", f"standby = {pair.standby.text}"]
    fleet, answers = evaluate_list(project, lines)
    assert (fleet.exit_code, len(fleet.groups), fleet.repeated, fleet.drifted) == (0, 1, (), ())
    assert any("this is a standby" in warning for warning in answers["standby"].warnings)
    assert not any("standby" in warning for warning in answers["primary"].warnings)


def test_a_query_in_the_way_of_replay_ends_the_run_with_a_sentence(pair: Pair, tmp_path: Path) -> None:
    """In a savepoint, as every check is, the server cannot end the query alone."""
    pair.primary.run(
        "CREATE TABLE scratch (n integer)",
        "CREATE FUNCTION slow() RETURNS int LANGUAGE plpgsql AS "
        "$$ BEGIN PERFORM pg_sleep(600); RETURN 0; END $$",
    )
    catch_up(pair.primary, pair.standby)
    sleeps = block("SELECT slow() + count(*) AS x FROM scratch", check="sleeps", require="x = 0")
    runbook = write(tmp_path, page(sleeps))
    with ThreadPoolExecutor(1) as pool:
        asking = pool.submit(run, pair.standby, runbook, timeout_s=600)
        wait_until(lambda: asking.done() or is_running(pair.standby, "slow()"), "the query runs")
        pair.primary.run("TRUNCATE scratch")
        error = asking.exception(timeout=30)
    assert isinstance(error, Unreachable)
    assert (
        "is a standby, and cancelled a query to replay changes of the same rows: run the command again"
        in str(error)
    )
