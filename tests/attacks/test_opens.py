"""`opens` is a promise: a revision that a page opens and that does not ask that gate is found, and refused."""

import pytest

from attacks import attacked
from attacks.ledger import recorded_revisions
from attacks.orders import AT_B2, AT_D4, CONTRACT, PAGE, approve, assert_refused, state_of
from attacks.project import Project
from attacks.psql import feed

DROP = '    op.execute("DROP TABLE old_orders")\n'
GATE = """    with gate(
        "orders/ready",
        lock=["old_orders"],
        recheck=["quiet"],
        insist=["quiet", "approved"],
        revision=revision,
    ):
"""
EASY_PHASE = """
## Phase: easy

```sql
-- check: nothing
-- require: n = 0
SELECT 0 AS n;
```
"""


def revision(body: str, *, head: str = "", tail: str = "") -> str:
    """Write c3 with another body."""
    return (
        '"""What must not happen before its gate is open."""\n\nfrom alembic import op\n'
        'from pipestate.gate import gate\n\nrevision = "c3"\ndown_revision = "b2"\n'
        f"{head}\n\ndef upgrade() -> None:\n{body}\n\ndef downgrade() -> None:\n    pass\n{tail}"
    )


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


# Revisions that a reader of the file finds out.
SILENT = {
    "no gate at all": revision(DROP),
    "a gate in a comment": revision(DROP + '    # with gate("orders/ready", lock=["old_orders"]):\n'),
    "a gate in a text": revision(DROP + '    """with gate(\'orders/ready\', lock=[\'old_orders\']):"""\n'),
    "the gate of another phase": revision(
        GATE.replace("orders/ready", "orders/easy").replace(
            'recheck=["quiet"],\n        insist=["quiet", "approved"],\n        ', ""
        )
        + f"    {DROP}"
    ),
}
# Revisions that call the gate somewhere, and never get there.
PRETENDING = {
    "behind an if that is never true": revision(
        f"    if revision == 'never':\n{indented(GATE + '        pass')}{DROP}"
    ),
    "in a function that nobody calls": revision(
        DROP, tail=f"\n\ndef unused() -> None:\n{GATE}        pass\n"
    ),
    "on the way down": revision(DROP).replace(
        "def downgrade() -> None:\n    pass\n", f"def downgrade() -> None:\n{GATE}        pass\n"
    ),
}


def write(project: Project, text: str) -> None:
    project.write(CONTRACT, text)
    if "orders/easy" in text:
        project.edit(PAGE, ("phases:\n", 'phases:\n  easy: {from: "b2", until: "c3", opens: ["c3"]}\n'))
        project.edit(PAGE, ("\n## Phase: ready\n", f"{EASY_PHASE}\n## Phase: ready\n"))


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
@pytest.mark.parametrize("command", ["runbook lint", "plan", "verify", "gate orders/ready"])
def test_a_revision_that_does_not_ask_its_gate_is_found(approved: Project, command: str, text: str) -> None:
    write(approved, text)
    done = approved.pipestate(*command.split())
    assert done.returncode == 2, done.stdout + done.stderr
    assert "c3" in done.stdout + done.stderr
    assert "orders/ready" in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["runbook lint", "plan", "verify"])
def test_a_revision_that_does_not_exist_is_found(approved: Project, command: str) -> None:
    approved.edit(PAGE, ('opens: ["c3"]', 'opens: ["c3", "c400"]'))
    done = approved.pipestate(*command.split())
    assert done.returncode == 2, done.stdout + done.stderr
    assert "c400" in done.stdout + done.stderr


def test_a_gate_that_is_named_by_a_constant_is_a_gate(gated: Project) -> None:
    text = gated.read(CONTRACT).replace('"orders/ready"', "PHASE")
    gated.write(CONTRACT, text.replace("\n\ndef upgrade", '\nPHASE = "orders/ready"\n\n\ndef upgrade'))
    assert gated.pipestate("runbook", "lint").returncode == 0
    assert gated.pipestate("verify").returncode == 1
    gated.use_environment("guarded")
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "the gate orders/ready is closed")


@pytest.mark.parametrize("text", [*SILENT.values(), *PRETENDING.values()], ids=[*SILENT, *PRETENDING])
def test_the_guard_refuses_what_has_not_asked_its_gate(gated: Project, text: str) -> None:
    approve(gated)
    write(gated, text)
    gated.use_environment("guarded")
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "c3", "orders/ready")


@pytest.mark.parametrize("text", SILENT.values(), ids=SILENT)
def test_the_guard_writes_no_script_for_what_does_not_ask_its_gate(gated: Project, text: str) -> None:
    write(gated, text)
    gated.use_environment("guarded")
    done = gated.alembic("upgrade", "b2:head", "--sql")
    feed(gated.database, done.stdout)
    assert_refused(done, gated.database, "c3")


def test_the_guard_lets_an_open_gate_through_and_keeps_a_closed_one_closed(gated: Project) -> None:
    gated.use_environment("guarded")
    assert_refused(gated.alembic("upgrade", "head"), gated.database, "the gate orders/ready is closed")
    approve(gated)
    done = gated.alembic("upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr


def test_the_guard_does_not_stop_an_upgrade_that_was_forced(gated: Project) -> None:
    gated.use_environment("guarded")
    done = gated.alembic("-x", "force=incident 7", "upgrade", "head")
    assert (done.returncode, state_of(gated.database)) == (0, AT_D4), done.stderr


def test_the_guard_records_what_was_applied_and_taken_back(gated: Project) -> None:
    attacked.install_ledger(gated.database, gated.root)
    gated.use_environment("guarded")
    approve(gated)
    assert gated.alembic("upgrade", "head").returncode == 0
    assert recorded_revisions(gated.database, "upgrade") == ["c3", "d4"]
    assert gated.alembic("downgrade", "c3").returncode == 0
    assert recorded_revisions(gated.database, "downgrade") == ["d4"]
    said = gated.pipestate("history").stdout
    assert "upgrade" in said
    assert "downgrade" in said


def test_a_closed_gate_records_no_revision(gated: Project) -> None:
    attacked.install_ledger(gated.database, gated.root)
    gated.use_environment("guarded")
    assert gated.alembic("upgrade", "head").returncode != 0
    assert state_of(gated.database) == AT_B2
    assert recorded_revisions(gated.database, "upgrade") == []
