-- Written by `alembic --sql`. Review it, then run it with psql: psql -f this-file DATABASE
\set ON_ERROR_STOP on
SET TimeZone = 'UTC';
SET standard_conforming_strings = 'on';
SET statement_timeout = '0';
SET idle_in_transaction_session_timeout = '0';
SET lock_timeout = '60s';
SET default_transaction_read_only = 'off';
SET row_security = 'off';
SET max_parallel_workers_per_gather = '0';
SET max_parallel_maintenance_workers = '0';

DO $pipestate$
BEGIN
  FOR attempt IN 1..600 LOOP
    IF pg_try_advisory_lock(1885958245, 1937006964) THEN RETURN; END IF;
    COMMIT;
    PERFORM pg_sleep(1);
  END LOOP;
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('another migration is still running on this database: run this script again later');
END $pipestate$;

BEGIN;

-- Running upgrade 0005 -> 0006

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0005' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('this part of the script starts at revision 0005, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

-- the gate sites-consolidation/readiness: backup-taken, stuck-sites, reconciliation-runs, health-score, manual-interventions, recent-site-progress-writes, recent-legacy-column-writes, no-dependents, soak
DO $pipestate$
DECLARE
  found text := '';
  n bigint;
  held boolean;
  seen jsonb;
  filled boolean := false;
  t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['site_progress'] LOOP
    IF to_regclass(t) IS NOT NULL AND NOT filled THEN
      EXECUTE format('SELECT EXISTS (SELECT FROM %s)', to_regclass(t)) INTO filled;
    END IF;
  END LOOP;
  IF NOT filled THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    EXECUTE $check$SELECT count(*), coalesce(bool_and((q."valid" >= 1 AND q."valid"::text <> 'NaN') IS TRUE), false), jsonb_agg(to_jsonb(q)) -> 0 FROM (
SELECT count(*) AS valid FROM pipestate_attestation WHERE name = 'backup-taken' AND extract(epoch FROM now() - attested_at) < 86400
) q$check$ INTO n, held, seen;
    IF NOT (n = 1 AND held) THEN
      found := found || format(E'\n  %1$s: observed %4$s, required %2$s (%3$s)', 'backup-taken', 'valid >= 1', 'runbooks/sites-consolidation.md:859',
        left(coalesce(seen::text, n || ' rows'), 300));
    END IF;
    EXECUTE $check$SELECT count(*), coalesce(bool_and((q."stuck_pct" < 1.0 AND q."stuck_pct"::text <> 'NaN') IS TRUE), false), jsonb_agg(to_jsonb(q)) -> 0 FROM (
SELECT count(*) FILTER (WHERE stuck) AS stuck, count(*) AS total,
       coalesce(round(100.0 * count(*) FILTER (WHERE stuck) / nullif(count(*), 0), 1), 0.0) AS stuck_pct
FROM (SELECT updated_at IS NULL OR updated_at < now() - interval '2 hours' AS stuck
      FROM sites
      WHERE current_stage IS NOT NULL AND current_stage <> 'completed') AS in_flight
) q$check$ INTO n, held, seen;
    IF NOT (n = 1 AND held) THEN
      found := found || format(E'\n  %1$s: observed %4$s, required %2$s (%3$s)', 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:864',
        left(coalesce(seen::text, n || ' rows'), 300));
    END IF;
    EXECUTE $check$SELECT count(*), coalesce(bool_and((q."runs" = 10 AND q."runs"::text <> 'NaN') IS TRUE AND (q."most_found" < 5 AND q."most_found"::text <> 'NaN') IS TRUE), false), jsonb_agg(to_jsonb(q)) -> 0 FROM (
SELECT count(*) AS runs, max(latest.stuck) AS most_found
FROM (SELECT r.found AS stuck
      FROM pipestate_reconciliation r
      WHERE r.triggered_by = 'cron' AND r.finished_at IS NOT NULL
      ORDER BY r.id DESC
      LIMIT 10) AS latest
) q$check$ INTO n, held, seen;
    IF NOT (n = 1 AND held) THEN
      found := found || format(E'\n  %1$s: observed %4$s, required %2$s (%3$s)', 'reconciliation-runs', 'runs = 10 and most_found < 5', 'runbooks/sites-consolidation.md:888',
        left(coalesce(seen::text, n || ' rows'), 300));
    END IF;
    EXECUTE $check$SELECT count(*), coalesce(bool_and((q."health_score" >= 95.0 AND q."health_score"::text <> 'NaN') IS TRUE), false), jsonb_agg(to_jsonb(q)) -> 0 FROM (
SELECT count(*) FILTER (WHERE stuck) AS stuck, count(*) AS total,
       coalesce(round(100.0 * count(*) FILTER (WHERE NOT stuck) / nullif(count(*), 0), 1), 100.0) AS health_score
FROM (SELECT current_stage <> 'completed'
             AND (updated_at IS NULL OR updated_at < now() - interval '2 hours') AS stuck
      FROM sites
      WHERE current_stage IS NOT NULL) AS known
) q$check$ INTO n, held, seen;
    IF NOT (n = 1 AND held) THEN
      found := found || format(E'\n  %1$s: observed %4$s, required %2$s (%3$s)', 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:901',
        left(coalesce(seen::text, n || ' rows'), 300));
    END IF;
    EXECUTE $check$SELECT count(*), coalesce(bool_and((q."interventions" = 0 AND q."interventions"::text <> 'NaN') IS TRUE AND (q."days_on_record" >= 7 AND q."days_on_record"::text <> 'NaN') IS TRUE), false), jsonb_agg(to_jsonb(q)) -> 0 FROM (
SELECT count(*) FILTER (WHERE triggered_by = 'manual' AND started_at > now() - interval '7 days') AS interventions,
       round(CAST(extract(epoch FROM now() - min(started_at)) / 86400 AS numeric), 2) AS days_on_record
FROM pipestate_reconciliation
) q$check$ INTO n, held, seen;
    IF NOT (n = 1 AND held) THEN
      found := found || format(E'\n  %1$s: observed %4$s, required %2$s (%3$s)', 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:927',
        left(coalesce(seen::text, n || ' rows'), 300));
    END IF;
    EXECUTE $check$SELECT count(*), coalesce(bool_and((q."recent" = 0 AND q."recent"::text <> 'NaN') IS TRUE), false), jsonb_agg(to_jsonb(q)) -> 0 FROM (
SELECT count(*) AS recent, max(updated_at) AS latest
FROM site_progress
WHERE updated_at > now() - interval '24 hours' OR started_at > now() - interval '24 hours'
) q$check$ INTO n, held, seen;
    IF NOT (n = 1 AND held) THEN
      found := found || format(E'\n  %1$s: observed %4$s, required %2$s (%3$s)', 'recent-site-progress-writes', 'recent = 0', 'runbooks/sites-consolidation.md:948',
        left(coalesce(seen::text, n || ' rows'), 300));
    END IF;
    EXECUTE $check$SELECT count(*), coalesce(bool_and((q."recent" = 0 AND q."recent"::text <> 'NaN') IS TRUE), false), jsonb_agg(to_jsonb(q)) -> 0 FROM (
-- The outer row stands in for a column that this application never had.
SELECT (SELECT count(*) FROM sites
        WHERE (last_updated LIKE '2___-__-__%' AND replace(last_updated, ' ', 'T') COLLATE "C" > since)
           OR (last_deployed LIKE '2___-__-__%' AND replace(last_deployed, ' ', 'T') COLLATE "C" > since)
           OR (last_extracted LIKE '2___-__-__%' AND replace(last_extracted, ' ', 'T') COLLATE "C" > since)) AS recent,
       since
FROM (SELECT CAST(NULL AS text) AS last_updated, CAST(NULL AS text) AS last_deployed,
             CAST(NULL AS text) AS last_extracted,
             to_char(now() AT TIME ZONE 'UTC' - interval '36 hours', 'YYYY-MM-DD"T"HH24:MI:SS') AS since) AS otherwise
) q$check$ INTO n, held, seen;
    IF NOT (n = 1 AND held) THEN
      found := found || format(E'\n  %1$s: observed %4$s, required %2$s (%3$s)', 'recent-legacy-column-writes', 'recent = 0', 'runbooks/sites-consolidation.md:973',
        left(coalesce(seen::text, n || ' rows'), 300));
    END IF;
    EXECUTE $check$SELECT count(*), coalesce(bool_and((q."dependents" = 0 AND q."dependents"::text <> 'NaN') IS TRUE), false), jsonb_agg(to_jsonb(q)) -> 0 FROM (
WITH going AS (
  SELECT to_regclass('site_progress')::oid AS relation, 0 AS number
  UNION ALL
  SELECT attrelid, attnum FROM pg_attribute
  WHERE attrelid = to_regclass('sites') AND NOT attisdropped
    AND attname IN ('status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted')
), others AS (
  SELECT pg_describe_object(d.classid, d.objid, 0) AS dependent
  FROM going g
  JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = g.relation
    AND (g.number = 0 OR d.refobjsubid = g.number)
  LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid
  LEFT JOIN pg_trigger t ON d.classid = 'pg_trigger'::regclass AND t.oid = d.objid
  WHERE r.ev_class <> g.relation
    OR d.classid IN ('pg_proc'::regclass, 'pg_publication_rel'::regclass)
    OR (g.number > 0 AND (d.classid = 'pg_policy'::regclass
                          OR (NOT t.tgisinternal AND t.tgname NOT LIKE 'pipestate\_keep\_%')))
  UNION
  SELECT pg_describe_object('pg_constraint'::regclass, c.oid, 0)
  FROM pg_constraint c JOIN going g ON c.confrelid = g.relation
  WHERE c.contype = 'f' AND c.conrelid <> c.confrelid AND (g.number = 0 OR g.number = ANY (c.confkey))
  UNION
  SELECT pg_describe_object('pg_proc'::regclass, p.oid, 0)
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND p.prosrc ~* '\msite_progress\M'
    AND to_regclass('site_progress') IS NOT NULL
)
SELECT count(*) AS dependents, min(dependent) AS for_example
FROM others
) q$check$ INTO n, held, seen;
    IF NOT (n = 1 AND held) THEN
      found := found || format(E'\n  %1$s: observed %4$s, required %2$s (%3$s)', 'no-dependents', 'dependents = 0', 'runbooks/sites-consolidation.md:1008',
        left(coalesce(seen::text, n || ' rows'), 300));
    END IF;
    EXECUTE $check$SELECT count(*), coalesce(bool_and((q."days_held" >= 7 AND q."days_held"::text <> 'NaN') IS TRUE AND (q."days_since_last_record" <= 2 AND q."days_since_last_record"::text <> 'NaN') IS TRUE), false), jsonb_agg(to_jsonb(q)) -> 0 FROM (
SELECT round(CAST(extract(epoch FROM now() - min(recorded_at)) / 86400 AS numeric), 2) AS days_held,
       round(CAST(extract(epoch FROM now() - max(recorded_at)) / 86400 AS numeric), 2) AS days_since_last_record,
       count(*) AS records
FROM pipestate_run
WHERE event = 'verify' AND runbook = 'sites-consolidation' AND phase = 'backfill' AND gate = 'open'
  AND id > (SELECT coalesce(max(c.id), 0) FROM pipestate_run c
            WHERE c.event = 'verify' AND c.runbook = 'sites-consolidation' AND c.phase = 'backfill'
              AND c.gate = 'closed')
) q$check$ INTO n, held, seen;
    IF NOT (n = 1 AND held) THEN
      found := found || format(E'\n  %1$s: observed %4$s, required %2$s (%3$s)', 'soak', 'days_held >= 7 and days_since_last_record <= 2', 'runbooks/sites-consolidation.md:1074',
        left(coalesce(seen::text, n || ' rows'), 300));
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO', MESSAGE = 'end of reading';
  EXCEPTION WHEN SQLSTATE 'PSTRO' THEN NULL;
  END;
  IF found <> '' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate sites-consolidation/readiness is closed, so nothing of this revision was done:%s -- to look closer: pipestate verify sites-consolidation --phase readiness', found);
  END IF;
END $pipestate$;

-- lock site_progress where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (true) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('site_progress')) AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
  IF targets IS NULL THEN RETURN; END IF;
  PERFORM set_config('lock_timeout', '200ms', true);
  BEGIN
    PERFORM set_config('deadlock_timeout', '50ms', true);
  EXCEPTION WHEN insufficient_privilege THEN NULL;
  END;
  LOOP
    BEGIN
      EXECUTE 'LOCK TABLE ' || targets || ' IN ACCESS EXCLUSIVE MODE';
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_stat_clear_snapshot();
      SELECT string_agg(DISTINCT format('pid %s (%s) holds it: %s', a.pid,
               coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)), '; ')
        INTO holders
        FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
       WHERE l.granted AND l.pid <> pg_backend_pid()
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('site_progress')) AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- the gate sites-consolidation/readiness: recent-site-progress-writes
DO $pipestate$
DECLARE
  found text := '';
  n bigint;
  held boolean;
  seen jsonb;
  filled boolean := false;
  t text;
BEGIN
  FOREACH t IN ARRAY ARRAY['site_progress'] LOOP
    IF to_regclass(t) IS NOT NULL AND NOT filled THEN
      EXECUTE format('SELECT EXISTS (SELECT FROM %s)', to_regclass(t)) INTO filled;
    END IF;
  END LOOP;
  IF NOT filled THEN RETURN; END IF;
  BEGIN
    PERFORM set_config('transaction_read_only', 'on', true);
    EXECUTE $check$SELECT count(*), coalesce(bool_and((q."recent" = 0 AND q."recent"::text <> 'NaN') IS TRUE), false), jsonb_agg(to_jsonb(q)) -> 0 FROM (
SELECT count(*) AS recent, max(updated_at) AS latest
FROM site_progress
WHERE updated_at > now() - interval '24 hours' OR started_at > now() - interval '24 hours'
) q$check$ INTO n, held, seen;
    IF NOT (n = 1 AND held) THEN
      found := found || format(E'\n  %1$s: observed %4$s, required %2$s (%3$s)', 'recent-site-progress-writes', 'recent = 0', 'runbooks/sites-consolidation.md:948',
        left(coalesce(seen::text, n || ' rows'), 300));
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO', MESSAGE = 'end of reading';
  EXCEPTION WHEN SQLSTATE 'PSTRO' THEN NULL;
  END;
  IF found <> '' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate sites-consolidation/readiness is closed, so nothing of this revision was done:%s -- to look closer: pipestate verify sites-consolidation --phase readiness', found);
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (to_regclass('site_progress') IS NOT NULL AND (true)) AND (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('site_progress') AND v.oid <> to_regclass('site_progress') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('site_progress') AND conrelid <> confrelid AND true) AS others (what)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('site_progress cannot go while others depend on it: %s. Drop or change them, then run the same again', (SELECT string_agg(what, ', ') FROM (SELECT DISTINCT 'view ' || v.oid::regclass::text FROM pg_depend d JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid JOIN pg_class v ON v.oid = r.ev_class WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = to_regclass('site_progress') AND v.oid <> to_regclass('site_progress') AND true UNION SELECT 'foreign key ' || conname || ' of ' || conrelid::regclass::text FROM pg_constraint WHERE contype = 'f' AND confrelid = to_regclass('site_progress') AND conrelid <> confrelid AND true) AS others (what)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('site_progress') IS NOT NULL AND (true) AND to_regclass('pipestate_archive.site_progress') IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('pipestate_archive.site_progress exists already, from an earlier archive: look at it, drop it, then run the same again');
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (to_regclass('site_progress') IS NOT NULL AND (true)) AND to_regnamespace('pipestate_archive') IS NULL THEN
  EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (to_regclass('site_progress') IS NOT NULL AND (true)) AND to_regclass('pipestate_archive.manifest') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE IF NOT EXISTS pipestate_archive.manifest (
    kind VARCHAR(20) NOT NULL,
    name VARCHAR(200) NOT NULL,
    origin VARCHAR(63) NOT NULL,
    archived_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition JSONB NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name)
)$ddl$;
END IF;
END $pipestate$;

-- lock site_progress where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('site_progress') IS NOT NULL AND (true)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('site_progress') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
  IF targets IS NULL THEN RETURN; END IF;
  PERFORM set_config('lock_timeout', '200ms', true);
  BEGIN
    PERFORM set_config('deadlock_timeout', '50ms', true);
  EXCEPTION WHEN insufficient_privilege THEN NULL;
  END;
  LOOP
    BEGIN
      EXECUTE 'LOCK TABLE ' || targets || ' IN ACCESS EXCLUSIVE MODE';
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_stat_clear_snapshot();
      SELECT string_agg(DISTINCT format('pid %s (%s) holds it: %s', a.pid,
               coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)), '; ')
        INTO holders
        FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
       WHERE l.granted AND l.pid <> pg_backend_pid()
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('site_progress') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f') AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

DO $pipestate$
DECLARE
  todo text;
BEGIN
  IF NOT (to_regclass('site_progress') IS NOT NULL AND (true)) THEN RETURN; END IF;
  EXECUTE $ddl$INSERT INTO pipestate_archive.manifest (kind, name, origin, definition)
SELECT 'table', relname, (SELECT nspname FROM pg_namespace n WHERE n.oid = relnamespace), jsonb_build_object(
  'ours', EXISTS (SELECT FROM pipestate_object WHERE kind = 'table' AND name = 'site_progress'),
  'foreign_keys', coalesce((SELECT jsonb_object_agg(conname, pg_get_constraintdef(oid)) FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f'), '{}'),
  'parents', coalesce((SELECT jsonb_agg(DISTINCT confrelid::regclass::text) FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f'), '[]'))
FROM pg_class WHERE oid = to_regclass('site_progress')
ON CONFLICT (kind, name) DO UPDATE
SET origin = excluded.origin, archived_at = excluded.archived_at, definition = excluded.definition$ddl$;
  SELECT string_agg(format('DROP CONSTRAINT %I', conname), ', ') INTO todo FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f';
  IF todo IS NOT NULL THEN EXECUTE 'ALTER TABLE site_progress ' || todo; END IF;
  EXECUTE 'ALTER TABLE site_progress SET SCHEMA pipestate_archive';
END $pipestate$;

DO $pipestate$
BEGIN
IF (true) AND to_regnamespace('pipestate_archive') IS NULL THEN
  EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
END IF;
END $pipestate$;

DO $pipestate$
BEGIN
IF (true) AND to_regclass('pipestate_archive.manifest') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE IF NOT EXISTS pipestate_archive.manifest (
    kind VARCHAR(20) NOT NULL,
    name VARCHAR(200) NOT NULL,
    origin VARCHAR(63) NOT NULL,
    archived_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition JSONB NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name)
)$ddl$;
END IF;
END $pipestate$;

INSERT INTO pipestate_archive.manifest (kind, name, origin, definition) VALUES ('table', 'site_progress', current_schema(), '{"absent": true}') ON CONFLICT DO NOTHING;

UPDATE pipestate_alembic_version SET version_num='0006' WHERE pipestate_alembic_version.version_num = '0005';

COMMIT;

