"""Instructions, outputs and warnings of the source documents: each is found in a runbook or on the operations page."""

import re
from pathlib import Path

import pytest

from support.alembic_runs import ROOT

SITES = "runbooks/sites-consolidation.md"
QUEUE = "runbooks/queue-cutover.md"
ITEMS = "runbooks/content-item-pipeline-state.md"
OPERATIONS = "docs/migration/operations.md"

# What a reader of the source looks for, and where it is. Figures and names are those of the source.
FOUND = (
    ("000 step 1", SITES, "ls -lh before_consolidation_*.dump"),
    ("000 step 2", SITES, "ocr_total            | integer"),
    ("000 step 3", SITES, "Would migrate 105 sites"),
    ("000 step 4", SITES, "Migrated 105 sites"),
    ("000 step 4", SITES, "FROM sites WHERE current_stage = 'ocr' LIMIT 5"),
    ("000 step 5", SITES, "Deleted 82 deferred coordinators and 2,695 failed OCR jobs"),
    ("000 step 6", SITES, "Recovered 105 sites"),
    ("000 step 6", SITES, "watch the compilation queue"),
    ("000 step 6", OPERATIONS, "RQ dashboard"),
    ("000 step 7", SITES, "crontab -l | grep reconcile"),
    ("000 step 8", SITES, "| `completed` | 189 | rising |"),
    ("000 step 8", SITES, "| `extraction` | 45 | new |"),
    ("000 step 8", SITES, "| `compilation` | 23 | new |"),
    ("000 step 8", SITES, "| `ocr` | 12 | falling |"),
    ("000 verification", SITES, "-- view: failing-sites"),
    ("000 success", SITES, "Sentry"),
    ("000 troubleshooting 1", SITES, "current_stage = 'ocr' AND ocr_total > 0"),
    ("000 troubleshooting 1", OPERATIONS, "current_stage = 'ocr' AND ocr_total > 0"),
    ("000 troubleshooting 2", SITES, "The role lacks UPDATE on `sites`"),
    ("000 rollback", SITES, "git revert"),
    ("000 support", SITES, "2026-01-18-pipeline-state-consolidation-design.md"),
    ("000 support", SITES, "`2026-01-18-pipeline-state-consolidation.md`"),
    ("000 support", SITES, "fix-ocr-failure-resilience"),
    ("001 task 2", OPERATIONS, "increment_completed"),
    ("001 task 2", OPERATIONS, "increment_failed"),
    ("001 task 2", OPERATIONS, "should_trigger_coordinator"),
    ("001 task 2", OPERATIONS, "claim_coordinator_enqueue"),
    ("001 tasks 3, 6", SITES, "../docs/migration/operations.md#workers"),
    ("001 tasks 3, 6", SITES, "../examples/clerk/workers.py"),
    ("001 task 3.5", SITES, "Remove `depends_on`"),
    ("001 task 3.5", OPERATIONS, "Remove `depends_on`"),
    ("001 task 4", OPERATIONS, "Without a PDF it is the number that `site_progress` expected"),
    ("001 tasks 7.7, 8.7", SITES, "Write the migration log"),
    ("001 task 8.7", SITES, "docs/deployment_notes.md"),
    ("001 task 8.2", SITES, "import clerk.workers"),
    ("001 task 9.1", SITES, "Sites that have not started yet appear as `(none)`"),
    ("001 task 9.2", SITES, 'the comment "Sites and the one account of their pipeline state'),
    ("002 tasks 1-7", SITES, "`src/clerk/queue_db.py`"),
    ("002 tasks 1-7", SITES, "pytest tests/test_workers.py"),
    ("002 task 3.4", SITES, "`last_error_stage = 'fetch'`"),
    ("002 task 3.4", SITES, "No PDFs found"),
    ("002 task 8.1", SITES, r"rg 'site\.status|sites_table\.c\.status'"),
    ("002 task 9", SITES, "NULLs first"),
    ("002 tasks 10.4, 11.4", SITES, "--there-and-back"),
    ("002 task 12.4", SITES, "rg 'models import.*site_progress_table'"),
    ("002 task 13.1", SITES, r"rg 'site_progress|\.status.*==' tests/"),
    ("002 task 13.4", SITES, "tests/fixtures/sample_sites.json"),
    ("002 task 14", SITES, "rg 'site_progress|status.*deployed|status.*needs_ocr' docs/"),
    ("002 task 15.1", SITES, "clerk --version"),
    ("002 task 15.6", SITES, "/var/log/clerk-*.log"),
    ("002 task 16.3", SITES, "pipestate gate sites-consolidation/rollback"),
    ("002 success", SITES, "the application's tests pass"),
    ("002 timeline", SITES, "four to five hours"),
    ("003 phase 1.2", QUEUE, "pages/api/staff/create-test-customer.ts"),
    ("003 phase 1.2", QUEUE, 'priority: "starter"'),
    ("003 phase 1.4", QUEUE, "this query shows all of the last 24 hours"),
    ("003 phase 2.1", QUEUE, "Math.random() * 100 < share"),
    ("003 troubleshooting", QUEUE, "GROUP BY idempotency_key HAVING count(*) > 1"),
    ("003 troubleshooting", QUEUE, "check your retry logic"),
    ("003 throughout", QUEUE, "DigitalOcean"),
    ("003 throughout", QUEUE, "Netlify"),
    ("003 throughout", QUEUE, "PagerDuty"),
    ("003 throughout", QUEUE, "Supabase"),
    ("004 scope", ITEMS, "adr_e1_pipeline_scoped_processing_state_v1.md"),
    ("004 execution", ITEMS, "run_theme_pipeline_state_migration()"),
    ("004 execution", ITEMS, "backend/app/main.py"),
)


def text_of(path: str) -> str:
    return " ".join((ROOT / path).read_text(encoding="utf-8").split())


@pytest.mark.parametrize(("source", "path", "words"), FOUND)
def test_what_a_source_says_is_found(source: str, path: str, words: str) -> None:
    assert " ".join(words.split()) in text_of(path), source


RUNBOOKS = [path for path in sorted((ROOT / "runbooks").glob("*.md")) if not path.name.endswith(".sqlite.md")]


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_every_phase_has_its_table_an_expected_output_and_a_link(path: Path) -> None:
    _, *phases = re.split(r"^## Phase: ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    for phase in phases:
        section = re.split(r"^## ", phase, flags=re.MULTILINE)[0]
        name = section.partition("\n")[0]
        assert "| check | meaning | what to do |" in section, name
        named = set(re.findall(r"`([a-z0-9-]+)`", "\n".join(re.findall(r"^\|.*$", section, re.MULTILINE))))
        own = set(re.findall(r"^-- check: (\S+)$|^- \[ \] `(\S+)`", section, re.MULTILINE))
        assert {check or sign_off for check, sign_off in own} <= named, name
        assert re.search(r"\]\(\.\./docs/(how-to|migration)/", section), name
        assert re.search(r"[Ee]xpected", section), name


@pytest.mark.parametrize("path", RUNBOOKS, ids=lambda path: path.stem)
def test_every_link_leads_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        assert (path.parent / target).exists(), target
    anchors = {
        re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-")
        for line in re.findall(r"^#+ (.*)$", text, re.M)
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) <= anchors
