"""Every way to break a healthy database that sites-consolidation must see: what each of its checks is for."""

from functools import partial

from support.check_cases import Page, case
from support.healthy_database import (
    build_healthy,
    build_rolled_back,
    observation,
    reconciliation,
    recorded,
    refresh,
    rehearsal,
)

IN_FLIGHT = "subdomain = 'site010.example.gov'"
COLUMN = "ALTER TABLE sites ADD COLUMN status VARCHAR"
MANY_IN_FLIGHT = tuple(
    "INSERT INTO sites (subdomain, current_stage, updated_at) "
    f"SELECT '{prefix}-' || subdomain, 'ocr', <1 minutes ago> FROM sites"
    for prefix in ("more", "other")
)
CONTRACTED_FOR_A_DAY = (
    "UPDATE pipestate.run SET recorded_at = <1 days ago> WHERE event = 'upgrade' AND revision IN ('0006', '0007')",
    "UPDATE pipestate.run SET recorded_at = <1 minutes ago> WHERE event = 'downgrade'",
    "UPDATE sites SET status = 'needs_ocr' WHERE current_stage = 'ocr'",  # as the restore derives it
)


EXPAND = (
    case(
        "expand/counter-columns",
        "a column is missing",
        "ALTER TABLE sites DROP COLUMN last_error_at",
        shows="missing last_error_at",
    ),
    case(
        "expand/counter-columns",
        "a counter may be NULL",
        "ALTER TABLE sites ALTER COLUMN ocr_failed DROP NOT NULL",
        only="postgresql",
        shows="not as promised ocr_failed",
    ),
    case(
        "expand/counter-columns",
        "a counter has no default",
        "ALTER TABLE sites ALTER COLUMN ocr_failed DROP DEFAULT",
        only="postgresql",
    ),
    case(
        "expand/counter-columns",
        "a time has no zone",
        "ALTER TABLE sites ALTER COLUMN last_error_at TYPE timestamp",
        only="postgresql",
        shows="not as promised last_error_at",
    ),
    case(
        "expand/counter-columns",
        "a column has another type",
        "ALTER TABLE sites DROP COLUMN last_error_at",
        "ALTER TABLE sites ADD COLUMN last_error_at VARCHAR",
    ),
    case(
        "expand/counter-indexes",
        "one is missing",
        "DROP INDEX idx_sites_updated_at",
        shows="missing idx_sites_updated_at",
    ),
    case(
        "expand/counter-indexes",
        "one is on another column",
        "DROP INDEX idx_sites_updated_at",
        "CREATE INDEX idx_sites_updated_at ON sites (started_at)",
    ),
    case(
        "expand/counter-indexes",
        "one is unique",
        "DROP INDEX idx_sites_coordinator_enqueued",
        "CREATE UNIQUE INDEX idx_sites_coordinator_enqueued ON sites (subdomain, coordinator_enqueued) "
        "WHERE coordinator_enqueued = false",
    ),
    case(
        "expand/counter-indexes",
        "one has another predicate",
        "DROP INDEX idx_sites_coordinator_enqueued",
        "CREATE INDEX idx_sites_coordinator_enqueued ON sites (subdomain, coordinator_enqueued) "
        "WHERE coordinator_enqueued = true",
    ),
    case(
        "expand/counter-indexes",
        "one has no predicate",
        "DROP INDEX idx_sites_coordinator_enqueued",
        "CREATE INDEX idx_sites_coordinator_enqueued ON sites (subdomain, coordinator_enqueued)",
        shows="not as promised idx_sites_coordinator_enqueued",
    ),
    case(
        "expand/counter-indexes",
        "one is descending",
        "DROP INDEX idx_sites_updated_at",
        "CREATE INDEX idx_sites_updated_at ON sites (updated_at DESC)",
    ),
    case(
        "expand/counter-indexes",
        "an interrupted build left it invalid",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'idx_sites_updated_at'::regclass",
        only="postgresql",
        shows="left invalid by an interrupted build idx_sites_updated_at",
    ),
    case(
        "expand/gate-indexes",
        "that of contradictions is missing",
        "DROP INDEX idx_sites_contradictions",
        shows="missing idx_sites_contradictions",
    ),
    case("expand/gate-indexes", "that of rows at ocr is missing", "DROP INDEX idx_site_progress_ocr"),
    *(
        case("expand/gate-indexes", f"{name} is missing", f"DROP INDEX {name}", only="postgresql")
        for name in ("idx_sites_legacy_times", "idx_sites_without_stage", "idx_site_progress_touched")
    ),
    case(
        "expand/gate-indexes",
        "an interrupted build left it invalid",
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'idx_sites_contradictions'::regclass",
        only="postgresql",
    ),
)

BACKFILL = (
    case(
        "backfill/backfill-complete",
        "a stale row's site has no stage",
        "UPDATE sites SET current_stage = NULL, ocr_total = 0, ocr_completed = 0, ocr_failed = 0 "
        "WHERE subdomain = 'site006.example.gov'",
        also="readiness/backfill-complete readiness/sites-without-stage",
        shows="site006.example.gov",
    ),
    case(
        "backfill/backfill-complete",
        "nobody knows when the row was written",
        "UPDATE sites SET current_stage = NULL, ocr_total = 0, ocr_completed = 0, ocr_failed = 0 "
        "WHERE subdomain = 'site006.example.gov'",
        "UPDATE site_progress SET updated_at = NULL WHERE subdomain = 'site006.example.gov'",
        also="readiness/backfill-complete readiness/sites-without-stage",
    ),
    *(
        case(
            "backfill/backfill-complete",
            f"a site's only state is its row at {stage}",
            "INSERT INTO sites (subdomain) VALUES ('old.example.gov')",
            "INSERT INTO site_progress (subdomain, current_stage, updated_at) "
            f"VALUES ('old.example.gov', '{stage}', <20 days ago>)",
            also="readiness/backfill-complete",
            shows="its only stage is in site_progress old.example.gov",
        )
        for stage in ("fetch", "extraction", "deploy", "completed")
    ),
    *(
        case(
            "backfill/counters-consistent",
            f"more {stage} jobs finished than there are",
            f"UPDATE sites SET {stage}_completed = {stage}_total, {stage}_failed = 1 WHERE {IN_FLIGHT}",
        )
        for stage in ("fetch", "ocr", "compilation", "extraction", "deploy")
    ),
    case(
        "backfill/counters-consistent",
        "a completed site waits for a coordinator",
        "UPDATE sites SET coordinator_enqueued = true WHERE subdomain = 'site001.example.gov'",
        shows="completed, but waits for a coordinator site001.example.gov",
    ),
    case(
        "backfill/counters-consistent",
        "jobs are counted for a site without a stage",
        "INSERT INTO sites (subdomain, ocr_total) VALUES ('lost.example.gov', 3)",
        shows="has jobs, but no stage lost.example.gov",
    ),
    case(
        "backfill/deferred-coordinators",
        "there are some",
        observation("deferred_coordinators", 3, "1 minutes ago"),
        shows="3.0",
    ),
    case(
        "backfill/deferred-coordinators",
        "the last check was too long ago",
        "UPDATE pipestate.observation SET observed_at = <61 minutes ago> WHERE name = 'deferred_coordinators'",
    ),
    case(
        "backfill/deferred-coordinators",
        "nobody has checked",
        "DELETE FROM pipestate.observation WHERE name = 'deferred_coordinators'",
        shows=None,  # its evidence are observations, and there is none
    ),
    case("backfill/failed-ocr-jobs", "there are some", observation("failed_ocr_jobs", 1, "1 minutes ago")),
    case(
        "backfill/failed-ocr-jobs",
        "the last check was too long ago",
        "UPDATE pipestate.observation SET observed_at = <61 minutes ago> WHERE name = 'failed_ocr_jobs'",
    ),
    case(
        "backfill/failed-ocr-jobs",
        "nobody has checked",
        "DELETE FROM pipestate.observation WHERE name = 'failed_ocr_jobs'",
        shows=None,  # its evidence are observations, and there is none
    ),
    case(
        "backfill/end-to-end",
        "only sites from before the counters are completed",
        "UPDATE sites SET started_at = <31 days ago> WHERE subdomain = 'site001.example.gov'",
    ),
    case(
        "backfill/end-to-end",
        "the new site is still on its way",
        "UPDATE sites SET current_stage = 'deploy', updated_at = <1 minutes ago> "
        "WHERE subdomain = 'site001.example.gov'",
    ),
    case(
        "backfill/end-to-end",
        "only recovered sites are completed: no fetch job of theirs was counted",
        "UPDATE sites SET fetch_completed = 0, fetch_total = 0",
    ),
    case(
        "backfill/reconciliation-schedule",
        "the last run is too long ago",
        "UPDATE pipeline_reconciliation SET started_at = <21 minutes ago>, finished_at = <21 minutes ago> "
        "WHERE finished_at > <21 minutes ago>",
    ),
    case(
        "backfill/reconciliation-schedule",
        "the runs do not come to their end",
        "UPDATE pipeline_reconciliation SET finished_at = NULL WHERE finished_at > <21 minutes ago>",
    ),
    case(
        "backfill/reconciliation-schedule",
        "it has never run",
        "DELETE FROM pipeline_reconciliation",
        also="readiness/reconciliation-runs readiness/manual-interventions",
        shows=None,  # its evidence are runs, and there is none
    ),
    case(
        "backfill/stuck-sites",
        "nobody knows when one of three was touched",
        f"UPDATE sites SET updated_at = NULL WHERE {IN_FLIGHT}",
        also="readiness/stuck-sites",
        shows="site010.example.gov",
    ),
    case(
        "backfill/stuck-sites",
        "five of nine hundred: few, but more than the reconciler leaves",
        *MANY_IN_FLIGHT,
        "UPDATE sites SET updated_at = <3 hours ago> WHERE subdomain LIKE 'more-site00_.example.gov' "
        "AND subdomain < 'more-site005'",
        shows="more-site000.example.gov",
    ),
    case(
        "backfill/health-score",
        "one site in ten is stuck",
        "UPDATE sites SET current_stage = 'extraction', updated_at = <3 hours ago> "
        "WHERE subdomain LIKE 'site__8.example.gov'",
        also="readiness/health-score readiness/stuck-sites backfill/stuck-sites",
    ),
    case(
        "backfill/failure-rate",
        "every fourth OCR job failed",
        "UPDATE sites SET ocr_total = 10, ocr_completed = 7, ocr_failed = 3 "
        "WHERE subdomain <> 'site002.example.gov'",
    ),
    case(
        "backfill/failure-rate",
        "every compilation failed",
        "UPDATE sites SET compilation_completed = 0, compilation_failed = compilation_total",
    ),
    case(
        "backfill/failure-rate",
        "nobody knows when the site was touched where all of them failed",
        "UPDATE sites SET ocr_total = 10, ocr_completed = 10, ocr_failed = 0 WHERE ocr_total > 0",
        "UPDATE sites SET ocr_total = 9000, ocr_completed = 0, ocr_failed = 9000, updated_at = NULL "
        "WHERE subdomain = 'site020.example.gov'",
        shows="site020.example.gov",
    ),
)

READINESS = (
    case(
        "readiness/stuck-sites",
        "one of three",
        f"UPDATE sites SET updated_at = <3 hours ago> WHERE {IN_FLIGHT}",
        also="backfill/stuck-sites",
        shows="site010.example.gov",
    ),
    case(
        "readiness/backfill-complete",
        "what is left would go with the table",
        "UPDATE sites SET current_stage = NULL, ocr_total = 0, ocr_completed = 0, ocr_failed = 0 "
        "WHERE subdomain = 'site012.example.gov'",
        also="backfill/backfill-complete readiness/sites-without-stage",
    ),
    case(
        "readiness/health-score",
        "one site in ten is stuck",
        "UPDATE sites SET current_stage = 'extraction', updated_at = <3 hours ago> "
        "WHERE subdomain LIKE 'site__7.example.gov'",
        also="backfill/health-score readiness/stuck-sites backfill/stuck-sites",
    ),
    case(
        "readiness/sites-without-stage",
        "a deployed site is known by its status only",
        "INSERT INTO sites (subdomain, status) VALUES ('old.example.gov', 'deployed')",
        shows="its only state is status old.example.gov deployed",
    ),
    case(
        "readiness/sites-without-stage",
        "a status of the application's own is a state, too",
        "UPDATE sites SET current_stage = NULL, status = 'paused', ocr_total = 0, ocr_completed = 0, "
        "ocr_failed = 0 WHERE subdomain = 'site003.example.gov'",
        also="backfill/backfill-complete readiness/backfill-complete",
        shows="its only state is status site003.example.gov paused",
    ),
    case(
        "readiness/reconciliation-runs",
        "one of the last ten found five",
        reconciliation("2 minutes ago", found=5),
        *(reconciliation("1 minutes ago") for _ in range(9)),
        shows="found five or more",
    ),
    case(
        "readiness/reconciliation-runs",
        "ten runs within seconds prove one moment",
        "DELETE FROM pipeline_reconciliation WHERE triggered_by = 'cron'",
        *(reconciliation("4 minutes ago") for _ in range(10)),
        shows=None,  # nothing is wrong with any of them
    ),
    case(
        "readiness/reconciliation-runs",
        "nine of the last ten were started by hand",
        "UPDATE pipeline_reconciliation SET triggered_by = 'manual', recovered = 0 "
        "WHERE started_at < <6 minutes ago>",
        shows=None,  # nothing is wrong with the one
    ),
    case(
        "readiness/reconciliation-runs",
        "the last ten are old",
        "UPDATE pipeline_reconciliation SET finished_at = <7 hours ago> "
        "WHERE triggered_by = 'cron' AND finished_at > <1 days ago>",
        also="backfill/reconciliation-schedule",
        shows="too long ago",
    ),
    case(
        "readiness/reconciliation-runs",
        "there were only nine",
        "DELETE FROM pipeline_reconciliation WHERE triggered_by = 'cron' "
        "AND id NOT IN (SELECT id FROM pipeline_reconciliation ORDER BY id DESC LIMIT 9)",
        shows=None,  # nothing is wrong with the nine
    ),
    case(
        "readiness/manual-interventions",
        "somebody helped six days ago",
        reconciliation("6 days ago", found=1, triggered_by="manual"),
    ),
    case(
        "readiness/manual-interventions",
        "a run of six days ago was killed: nobody knows what it recovered",
        reconciliation("6 days ago", triggered_by="manual"),
        "UPDATE pipeline_reconciliation SET finished_at = NULL WHERE triggered_by = 'manual'",
    ),
    case(
        "readiness/manual-interventions",
        "the ledger is six days old",
        "DELETE FROM pipeline_reconciliation WHERE started_at < <6 days ago>",
        reconciliation("6 days ago"),
        shows=None,  # nobody had to help on the days that are known
    ),
    case(
        "readiness/recent-site-progress-writes",
        "a row was updated 23 hours ago",
        "UPDATE site_progress SET updated_at = <23 hours ago> WHERE subdomain = 'site001.example.gov'",
        shows="updated within 24 hours site001.example.gov",
    ),
    case(
        "readiness/recent-site-progress-writes",
        "a row was begun 23 hours ago",
        "UPDATE site_progress SET started_at = <23 hours ago> WHERE subdomain = 'site001.example.gov'",
        shows="begun within 24 hours site001.example.gov",
    ),
    *(
        case(
            "readiness/recent-legacy-column-writes",
            f"{column} says so, in a time zone behind UTC",
            f"UPDATE sites SET {column} = <text 35 hours ago> WHERE subdomain = 'site001.example.gov'",
        )
        for column in ("last_updated", "last_deployed", "last_extracted")
    ),
    case(
        "readiness/recent-legacy-column-writes",
        "with a blank for the T",
        "UPDATE sites SET last_updated = replace(<text 1 hours ago>, 'T', ' ') "
        "WHERE subdomain = 'site001.example.gov'",
        shows="site001.example.gov",
    ),
    case(
        "readiness/no-dependents",
        "a view on the table",
        "CREATE VIEW app_progress AS SELECT * FROM site_progress",
        shows="site_progress",
    ),
    case(
        "readiness/no-dependents",
        "a view on a column",
        "CREATE VIEW app_status AS SELECT subdomain, status FROM sites",
        shows="app_status",
    ),
    case(
        "readiness/no-dependents",
        "a foreign key to the table",
        "CREATE TABLE app_notes (site VARCHAR REFERENCES site_progress (subdomain))",
        shows="app_notes",
    ),
    case(
        "readiness/no-dependents",
        "a foreign key to a column",
        "UPDATE sites SET last_extracted = subdomain",
        "CREATE UNIQUE INDEX app_unique ON sites (last_extracted)",
        "CREATE TABLE app_notes (extracted VARCHAR REFERENCES sites (last_extracted))",
        shows="app_notes",
    ),
    case(
        "readiness/no-dependents",
        "a publication of the table",
        "CREATE PUBLICATION app_out FOR TABLE site_progress",
        only="postgresql",
        shows="app_out",
    ),
    case(
        "readiness/no-dependents",
        "a function that names the table",
        "CREATE FUNCTION app_sync() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN UPDATE site_progress SET stage_total = 1; RETURN NEW; END'",
        only="postgresql",
        shows="names it site_progress function app_sync()",
    ),
    case(
        "readiness/no-dependents",
        "a function that reads a column",
        "CREATE FUNCTION app_state(text) RETURNS text LANGUAGE sql AS "
        "'SELECT status FROM sites WHERE subdomain = $1'",
        only="postgresql",
        shows="names it sites.status function app_state(text)",
    ),
    case(
        "readiness/no-dependents",
        "a function that reads a column beside another table's of that name",
        "CREATE FUNCTION app_jobs() RETURNS bigint LANGUAGE sql AS "
        "'SELECT count(*) FROM jobs j, sites WHERE j.status = sites.status'",
        only="postgresql",
        also="readiness/possible-dependents",
        shows="app_jobs()",
    ),
    case(
        "readiness/no-dependents",
        "a trigger's function that reads a column",
        "CREATE FUNCTION app_told() RETURNS trigger LANGUAGE plpgsql AS "
        "'BEGIN UPDATE jobs SET status = NEW.status; RETURN NEW; END'",
        "CREATE TRIGGER app_tell AFTER UPDATE ON sites FOR EACH ROW EXECUTE FUNCTION app_told()",
        only="postgresql",
        shows="app_told()",
    ),
    case(
        "readiness/possible-dependents",
        "a function whose column may be another table's",
        "CREATE FUNCTION app_jobs() RETURNS bigint LANGUAGE sql AS "
        "'SELECT count(*) FROM jobs j, sites s WHERE j.status = s.current_stage'",
        only="postgresql",
        shows="app_jobs()",
    ),
    case(
        "readiness/no-dependents",
        "a trigger on a column",
        "CREATE FUNCTION app_noop() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER app_watch BEFORE UPDATE OF status ON sites FOR EACH ROW EXECUTE FUNCTION app_noop()",
        only="postgresql",
        shows="app_watch",
    ),
    case(
        "readiness/no-dependents",
        "a policy on a column",
        "CREATE POLICY app_policy ON sites USING (status <> 'hidden')",
        only="postgresql",
        shows="app_policy",
    ),
    case(
        "readiness/no-dependents",
        "a trigger that writes to the table",
        "CREATE TRIGGER app_sync AFTER UPDATE ON sites BEGIN "
        "UPDATE site_progress SET stage_total = 1 WHERE subdomain = NEW.subdomain; END",
        only="sqlite",
        shows="app_sync",
    ),
    case(
        "readiness/soak",
        "it did not hold yesterday",
        recorded("1 days ago", "closed"),
        recorded("1 hours ago", "open"),
        shows="the gate was closed",
    ),
    case(
        "readiness/soak",
        "it has been open for six days",
        "DELETE FROM pipestate.run WHERE phase = 'backfill' AND recorded_at < <157 hours ago>",
        shows="the records begin here",
    ),
    case(
        "readiness/soak",
        "the last record is three days old",
        "DELETE FROM pipestate.run WHERE phase = 'backfill' AND recorded_at > <70 hours ago>",
        shows="no record for more than two days after it",
    ),
    case(
        "readiness/soak",
        "the two records in between are eight days apart",
        "DELETE FROM pipestate.run WHERE phase = 'backfill' AND recorded_at < <25 hours ago> "
        "AND recorded_at > <9 days ago>",
        shows="no record for more than two days after it",
    ),
    case(
        "readiness/soak",
        "nothing is on record",
        "DELETE FROM pipestate.run WHERE phase = 'backfill'",
        shows=None,  # its evidence are records, and there is none
    ),
    *(
        case("readiness/rehearsed", what, *statements, only="postgresql")
        for what, *statements in (
            ("nobody has rehearsed them", "DELETE FROM pipestate.rehearsal"),
            (
                "one of them was rehearsed",
                "DELETE FROM pipestate.rehearsal",
                rehearsal("0006"),
            ),
            (
                "a file was edited since",
                'UPDATE pipestate.rehearsal SET files = files || \'{"0007": "another"}\'',
            ),
            (
                "statements were prepared, and nothing was measured",
                "UPDATE pipestate.rehearsal SET kind = 'compat'",
            ),
            ("somebody would have waited", rehearsal("0006", "0007", wait_ms=500.1, when="1 days ago")),
            ("a revision failed there", "UPDATE pipestate.rehearsal SET longest_wait_ms = NULL"),
            ("a lock had no timeout", "UPDATE pipestate.rehearsal SET bounded = false"),
            ("nobody knows of a lock", "UPDATE pipestate.rehearsal SET bounded = NULL"),
            (
                "the clone was too small",
                "ANALYZE sites",
                rehearsal("0006", "0007", sites=149, when="1 days ago"),
            ),
            ("it is older than 30 days", "UPDATE pipestate.rehearsal SET rehearsed_at = <30.01 days ago>"),
        )
    ),
)

CLEANUP = (
    case(
        "cleanup/site-progress-dropped",
        "somebody made it anew",
        "CREATE TABLE site_progress (subdomain VARCHAR PRIMARY KEY)",
        shows="site_progress",
    ),
    case(
        "cleanup/legacy-columns-dropped", "somebody added one anew", COLUMN, shows="it is there again status"
    ),
    case(
        "cleanup/archive-complete",
        "the soft-dropped table was dropped without a purge",
        "DO $$ BEGIN EXECUTE format('DROP TABLE pipestate_archive._pipestate_%s_0', "
        "(SELECT id FROM pipestate.soft_drop WHERE kind = 'table')); END $$",
        only="postgresql",
        shows="it was dropped without a purge site_progress",
    ),
    case(
        "cleanup/archive-complete",
        "a hidden column was dropped",
        "DO $$ BEGIN EXECUTE format('ALTER TABLE sites DROP COLUMN _pipestate_%s_2', "
        "(SELECT id FROM pipestate.soft_drop WHERE kind = 'columns')); END $$",
        only="postgresql",
        shows="columns of it were dropped without a purge sites",
    ),
    case(
        "cleanup/archive-complete",
        "the ledger does not know it",
        "DELETE FROM pipestate.soft_drop WHERE kind = 'columns'",
        only="postgresql",
        shows="the ledger does not know it sites",
    ),
    case(
        "cleanup/archive-complete",
        "the archived table was dropped without a purge",
        "DROP TABLE pipestate_archive_site_progress",
        only="sqlite",
        shows="it is not in the archive site_progress",
    ),
    case(
        "cleanup/archive-complete",
        "the archived values were dropped without a purge",
        "DROP TABLE pipestate_archive_sites_columns_0007",
        only="sqlite",
        shows="it is not in the archive sites",
    ),
    case(
        "cleanup/archive-complete",
        "an archived column was dropped",
        "ALTER TABLE pipestate_archive_sites_columns_0007 DROP COLUMN last_deployed",
        only="sqlite",
        shows="columns of it are missing sites",
    ),
    case(
        "cleanup/archive-complete",
        "the manifest does not know it",
        "DELETE FROM pipestate_archive_manifest WHERE kind = 'columns'",
        only="sqlite",
        shows="the manifest does not know it sites",
    ),
)

CLEANUP_AGAIN = (
    case(
        "cleanup/failure-rate-unchanged",
        "three OCR jobs in ten fail, before it was one",
        "UPDATE sites SET ocr_total = 10, ocr_completed = 7, ocr_failed = 3 "
        "WHERE subdomain <> 'site002.example.gov'",
    ),
    case(
        "cleanup/failure-rate-unchanged",
        "a compilation in ten fails, before it was none",
        "UPDATE sites SET compilation_completed = 0, compilation_failed = compilation_total "
        "WHERE subdomain LIKE 'site__1.example.gov'",
    ),
    case(
        "cleanup/failure-rate-unchanged",
        "nothing was recorded before the contract",
        "DELETE FROM pipestate.result WHERE check_id = 'failure-rate'",
    ),
    case(
        "cleanup/counters-consistent",
        "a completed site waits for a coordinator",
        "UPDATE sites SET coordinator_enqueued = true WHERE subdomain = 'site001.example.gov'",
        shows="completed, but waits for a coordinator site001.example.gov",
    ),
    case(
        "cleanup/reconciliation-schedule",
        "the last run is too long ago",
        "UPDATE pipeline_reconciliation SET started_at = <21 minutes ago>, finished_at = <21 minutes ago> "
        "WHERE finished_at > <21 minutes ago>",
    ),
    case(
        "cleanup/reconciliation-runs",
        "the last one found five",
        reconciliation("1 minutes ago", found=5),
        shows="found five or more",
    ),
    case(
        "cleanup/stuck-sites",
        "one of three",
        f"UPDATE sites SET updated_at = <3 hours ago> WHERE {IN_FLIGHT}",
        shows="site010.example.gov",
    ),
    case(
        "cleanup/health-score",
        "one site in ten is stuck",
        "UPDATE sites SET current_stage = 'extraction', updated_at = <3 hours ago> "
        "WHERE subdomain LIKE 'site__7.example.gov'",
        also="cleanup/stuck-sites",
    ),
)

ROLLBACK = (
    case(
        "rollback/site-progress-restored",
        "the table did not come back",
        "DROP TABLE site_progress",
        also="rollback/values-restored backfill/backfill-complete readiness/backfill-complete "
        "readiness/recent-site-progress-writes",
        shows="the table is missing",
    ),
    case(
        "rollback/site-progress-restored",
        "a column of it did not come back",
        "ALTER TABLE site_progress DROP COLUMN stage_total",
        also="backfill/backfill-complete readiness/backfill-complete",
        shows="the column is missing stage_total",
    ),
    case(
        "rollback/site-progress-restored",
        "its key did not come back",
        "ALTER TABLE site_progress RENAME TO keyless",
        "CREATE TABLE site_progress AS SELECT * FROM keyless",
        "DROP TABLE keyless",
        also="expand/gate-indexes",
        shows="it is not the primary key subdomain",
    ),
    case(
        "rollback/legacy-columns-restored",
        "one did not come back",
        "ALTER TABLE sites DROP COLUMN extraction_status",
        shows="missing extraction_status",
    ),
    case(
        "rollback/values-restored",
        "a site that changed has no row",
        *CONTRACTED_FOR_A_DAY,
        f"DELETE FROM site_progress WHERE {IN_FLIGHT}",
        shows="no row in site_progress site010.example.gov ocr",
    ),
    case(
        "rollback/values-restored",
        "a site that changed has no status",
        *CONTRACTED_FOR_A_DAY,
        f"UPDATE sites SET status = NULL WHERE {IN_FLIGHT}",
        shows="no status site010.example.gov ocr",
    ),
    case(
        "rollback/values-restored",
        "a purge came before the downgrade",
        *CONTRACTED_FOR_A_DAY,
        recorded("1 hours ago", "open", phase="cleanup", event="purge"),
        shows="purged before the downgrade",
    ),
)

PAGE = Page(
    "sites-consolidation",
    healthy=build_healthy,
    later={"cleanup": partial(build_healthy, revision="0007"), "rollback": build_rolled_back},
    refresh=refresh,
    cases=(*EXPAND, *BACKFILL, *READINESS, *CLEANUP, *CLEANUP_AGAIN, *ROLLBACK),
    whole=True,
)
