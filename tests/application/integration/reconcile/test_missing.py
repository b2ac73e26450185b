"""The application's own answer to which jobs are missing: slow, failing, or nonsense."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from pipestate.core.errors import ConfigError
from support.stuck_sites import Pipeline, reported

Hooked = Callable[[Pipeline, str], Pipeline]


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> Hooked:
    """The pipeline with a hook of this body."""

    def give(pipeline: Pipeline, body: str) -> Pipeline:
        name = f"hook_{abs(hash((str(pipeline.root), body)))}"
        (pipeline.root / f"{name}.py").write_text(f"def missing(subdomain, stage):\n    {body}\n")
        monkeypatch.syspath_prepend(str(pipeline.root))
        return replace(pipeline, config=replace(pipeline.config, missing=f"{name}.missing"))

    return give


def test_no_transaction_waits_for_the_hook(pg_pipeline: Pipeline, hooked: Hooked) -> None:
    name = pg_pipeline.database.url.database
    pg_pipeline.database.run(f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '200ms'")
    pg_pipeline.put("a.gov", "deploy", deploy_total=2)
    slow = hooked(pg_pipeline, "import time; time.sleep(0.6); return [{}]")
    assert reported(slow.reconcile()) == [("a.gov", "recovered", "jobs")]


@pytest.mark.parametrize(
    "body",
    ["raise KeyError('year')", "return 7", "return ['2024']", "return [{1: 2}]", "return [{'f': lambda: 0}]"],
)
def test_a_hook_that_fails_costs_its_own_site_only(pipeline: Pipeline, hooked: Hooked, body: str) -> None:
    pipeline.put("a.gov", "deploy", deploy_total=2)
    pipeline.put("b.gov", "ocr", ocr_total=1, ocr_completed=1)
    done = {outcome.subject.site.subdomain: outcome for outcome in hooked(pipeline, body).reconcile()}
    assert (done["a.gov"].outcome, done["a.gov"].subject.action) == ("skipped", "person")
    assert "does not say which deploy jobs are missing: " in str(done["a.gov"].reason)
    assert done["b.gov"].outcome == "recovered"


def test_a_module_that_fails_when_it_is_imported_is_named(pipeline: Pipeline, hooked: Hooked) -> None:
    pipeline.put("a.gov", "deploy", deploy_total=2)
    broken = hooked(pipeline, "return []\nraise RuntimeError('no settings')")
    with pytest.raises(ConfigError, match="cannot be imported: no settings"):
        broken.reconcile()


def test_what_the_hook_does_not_miss_has_succeeded(pipeline: Pipeline, hooked: Hooked) -> None:
    pipeline.put("a.gov", "extraction", extraction_total=5, extraction_failed=5)
    work = hooked(pipeline, "return []")
    assert reported(work.reconcile()) == [("a.gov", "recovered", "coordinator")]
    counters = ("extraction_total", "extraction_completed", "extraction_failed")
    assert pipeline.site("a.gov", *counters) == (5, 5, 0)
