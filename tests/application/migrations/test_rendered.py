"""What each revision writes for psql, kept as files that a DBA can read without running Python.

`make rendered` writes them anew; look at the difference before you commit it.
"""

import os
from itertools import pairwise

import pytest
from alembic.script import ScriptDirectory

from support.alembic_runs import ROOT, config_for, script_for
from support.versions import needs_alembic

RENDERED = ROOT / "tests" / "rendered"
WRITE = "PIPESTATE_WRITE_RENDERED" in os.environ
REVISIONS = [each.revision for each in ScriptDirectory.from_config(config_for("")).walk_revisions()]
STEPS = list(pairwise(["base", *reversed(REVISIONS)]))
NAMES = {
    f"{revision}-{direction}.sql": (direction, f"{start}:{end}")
    for before, revision in STEPS
    for direction, start, end in (("upgrade", before, revision), ("downgrade", revision, before))
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=needs_alembic("1.19")) if name == "0001-downgrade.sql" else name
        for name in NAMES
    ],
)
def test_a_revision_writes_what_it_wrote(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIPESTATE_ACTOR", "a person")
    written = script_for("postgresql://", *NAMES[name])
    kept = RENDERED / name
    if WRITE:
        RENDERED.mkdir(exist_ok=True)
        kept.write_text(written)
    assert written == kept.read_text(), (
        f"{name} is another script now: make rendered, then look at the difference"
    )


def test_every_kept_script_is_still_written() -> None:
    assert {path.name for path in RENDERED.glob("*grade.sql")} == set(NAMES)
