"""The application's own answer to which jobs are missing: slow, failing, or nonsense."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from stuck_sites import Pipeline, told

Hooked = Callable[[Pipeline, str], Pipeline]


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> Hooked:
    """The pipeline with a hook of this body."""

    def give(pipeline: Pipeline, body: str) -> Pipeline:
        name = f"hook_{abs(hash((str(pipeline.root), body)))}"
        (pipeline.root / f"{name}.py").write_text(f"def missing(subdomain, stage):\n    {body}\n")
        monkeypatch.syspath_prepend(str(pipeline.root))
        return replace(pipeline, wiring=replace(pipeline.wiring, missing=f"{name}.missing"))

    return give


def test_no_transaction_waits_for_the_hook(pg_pipeline: Pipeline, hooked: Hooked) -> None:
    name = pg_pipeline.database.url.database
    pg_pipeline.database.run(f"ALTER DATABASE {name} SET idle_in_transaction_session_timeout = '200ms'")
    pg_pipeline.put("a.gov", "deploy", deploy_total=2)
    slow = hooked(pg_pipeline, "import time; time.sleep(0.6); return [{}]")
    assert told(slow.reconcile()) == [("a.gov", "recovered", "jobs")]
