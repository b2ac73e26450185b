"""Reconciliation against the odds: other settings of the server, late jobs, odd files, a hook that fails."""

from stuck_sites import Pipeline, told


def test_the_time_zone_of_the_server_does_not_matter(pg_pipeline: Pipeline) -> None:
    name = pg_pipeline.database.url.database
    pg_pipeline.database.run(f"ALTER DATABASE {name} SET TimeZone = 'America/New_York'")
    pg_pipeline.put("a.gov", "ocr", ocr_total=1, ocr_completed=1)
    assert told(pg_pipeline.reconcile()) == [("a.gov", "recovered", "coordinator")]
