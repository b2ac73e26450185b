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

-- Running upgrade 0001 -> 0002

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0001' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('this part of the script starts at revision 0001, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

CREATE TABLE IF NOT EXISTS pipestate_object (
    kind VARCHAR(20) NOT NULL,
    name VARCHAR(200) NOT NULL,
    revision VARCHAR(32) NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
    CONSTRAINT pk_pipestate_object PRIMARY KEY (kind, name)
);

-- lock pipestate_archive.pipestate_run where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.pipestate_run') IS NOT NULL AND to_regclass('pipestate_run') IS NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.pipestate_run') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_run') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.pipestate_run') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_run') AS wanted (t));
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
  home text;
  keys jsonb;
  ours boolean;
  rule record;
BEGIN
  IF NOT (to_regclass('pipestate_archive.pipestate_run') IS NOT NULL AND to_regclass('pipestate_run') IS NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT origin, definition -> 'foreign_keys', definition -> 'ours' INTO home, keys, ours FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_run';
  IF home IS NULL THEN RETURN; END IF;
  EXECUTE format('ALTER TABLE pipestate_archive.%I SET SCHEMA %I', 'pipestate_run', home);
  FOR rule IN SELECT key, value FROM jsonb_each_text(keys) LOOP
    EXECUTE format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', home, 'pipestate_run', rule.key,
      regexp_replace(rule.value, '( NOT VALID)?$', ' NOT VALID'));
  END LOOP;
  DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_run';
  IF ours THEN EXECUTE 'INSERT INTO pipestate_object (kind, name, revision) VALUES (''table'', ''pipestate_run'', ''0002'') ON CONFLICT DO NOTHING'; END IF;
END $pipestate$;

-- create pipestate_run
DO $pipestate$
BEGIN
IF to_regclass('pipestate_run') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE pipestate_run (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY, 
	recorded_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	actor VARCHAR NOT NULL, 
	event VARCHAR(20) NOT NULL, 
	runbook VARCHAR(100) NOT NULL, 
	phase VARCHAR(100) NOT NULL, 
	gate VARCHAR(20) NOT NULL, 
	runbook_sha256 VARCHAR(64) NOT NULL, 
	revision VARCHAR(32), 
	passed INTEGER DEFAULT 0 NOT NULL, 
	failed INTEGER DEFAULT 0 NOT NULL, 
	warned INTEGER DEFAULT 0 NOT NULL, 
	errored INTEGER DEFAULT 0 NOT NULL, 
	skipped INTEGER DEFAULT 0 NOT NULL, 
	duration_ms FLOAT, 
	reason TEXT, 
	details JSONB, 
	CONSTRAINT pk_pipestate_run PRIMARY KEY (id), 
	CONSTRAINT ck_pipestate_run_event CHECK (event IN ('verify', 'gate', 'force', 'purge'))
)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_pipestate_run_phase ON pipestate_run (runbook, phase, recorded_at)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate_object (kind, name, revision) VALUES ('table', 'pipestate_run', '0002') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate_object (kind, name, revision) VALUES ('index', 'idx_pipestate_run_phase', '0002') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

-- lock pipestate_archive.pipestate_attestation where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.pipestate_attestation') IS NOT NULL AND to_regclass('pipestate_attestation') IS NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.pipestate_attestation') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_attestation') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.pipestate_attestation') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_attestation') AS wanted (t));
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
  home text;
  keys jsonb;
  ours boolean;
  rule record;
BEGIN
  IF NOT (to_regclass('pipestate_archive.pipestate_attestation') IS NOT NULL AND to_regclass('pipestate_attestation') IS NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT origin, definition -> 'foreign_keys', definition -> 'ours' INTO home, keys, ours FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_attestation';
  IF home IS NULL THEN RETURN; END IF;
  EXECUTE format('ALTER TABLE pipestate_archive.%I SET SCHEMA %I', 'pipestate_attestation', home);
  FOR rule IN SELECT key, value FROM jsonb_each_text(keys) LOOP
    EXECUTE format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', home, 'pipestate_attestation', rule.key,
      regexp_replace(rule.value, '( NOT VALID)?$', ' NOT VALID'));
  END LOOP;
  DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_attestation';
  IF ours THEN EXECUTE 'INSERT INTO pipestate_object (kind, name, revision) VALUES (''table'', ''pipestate_attestation'', ''0002'') ON CONFLICT DO NOTHING'; END IF;
END $pipestate$;

-- create pipestate_attestation
DO $pipestate$
BEGIN
IF to_regclass('pipestate_attestation') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE pipestate_attestation (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY, 
	name VARCHAR(100) NOT NULL, 
	attested_by VARCHAR NOT NULL, 
	note TEXT, 
	revision VARCHAR(32), 
	attested_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	CONSTRAINT pk_pipestate_attestation PRIMARY KEY (id)
)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_pipestate_attestation_name ON pipestate_attestation (name, attested_at)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate_object (kind, name, revision) VALUES ('table', 'pipestate_attestation', '0002') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate_object (kind, name, revision) VALUES ('index', 'idx_pipestate_attestation_name', '0002') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

-- lock pipestate_archive.pipestate_observation where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.pipestate_observation') IS NOT NULL AND to_regclass('pipestate_observation') IS NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.pipestate_observation') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_observation') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.pipestate_observation') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_observation') AS wanted (t));
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
  home text;
  keys jsonb;
  ours boolean;
  rule record;
BEGIN
  IF NOT (to_regclass('pipestate_archive.pipestate_observation') IS NOT NULL AND to_regclass('pipestate_observation') IS NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT origin, definition -> 'foreign_keys', definition -> 'ours' INTO home, keys, ours FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_observation';
  IF home IS NULL THEN RETURN; END IF;
  EXECUTE format('ALTER TABLE pipestate_archive.%I SET SCHEMA %I', 'pipestate_observation', home);
  FOR rule IN SELECT key, value FROM jsonb_each_text(keys) LOOP
    EXECUTE format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', home, 'pipestate_observation', rule.key,
      regexp_replace(rule.value, '( NOT VALID)?$', ' NOT VALID'));
  END LOOP;
  DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_observation';
  IF ours THEN EXECUTE 'INSERT INTO pipestate_object (kind, name, revision) VALUES (''table'', ''pipestate_observation'', ''0002'') ON CONFLICT DO NOTHING'; END IF;
END $pipestate$;

-- create pipestate_observation
DO $pipestate$
BEGIN
IF to_regclass('pipestate_observation') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE pipestate_observation (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY, 
	name VARCHAR(100) NOT NULL, 
	value FLOAT NOT NULL, 
	source VARCHAR(100) NOT NULL, 
	actor VARCHAR NOT NULL, 
	revision VARCHAR(32), 
	observed_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	CONSTRAINT pk_pipestate_observation PRIMARY KEY (id)
)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_pipestate_observation_name ON pipestate_observation (name, observed_at)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate_object (kind, name, revision) VALUES ('table', 'pipestate_observation', '0002') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate_object (kind, name, revision) VALUES ('index', 'idx_pipestate_observation_name', '0002') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

-- lock pipestate_archive.pipestate_reconciliation where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.pipestate_reconciliation') IS NOT NULL AND to_regclass('pipestate_reconciliation') IS NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.pipestate_reconciliation') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_reconciliation') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.pipestate_reconciliation') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_reconciliation') AS wanted (t));
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
  home text;
  keys jsonb;
  ours boolean;
  rule record;
BEGIN
  IF NOT (to_regclass('pipestate_archive.pipestate_reconciliation') IS NOT NULL AND to_regclass('pipestate_reconciliation') IS NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT origin, definition -> 'foreign_keys', definition -> 'ours' INTO home, keys, ours FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_reconciliation';
  IF home IS NULL THEN RETURN; END IF;
  EXECUTE format('ALTER TABLE pipestate_archive.%I SET SCHEMA %I', 'pipestate_reconciliation', home);
  FOR rule IN SELECT key, value FROM jsonb_each_text(keys) LOOP
    EXECUTE format('ALTER TABLE %I.%I ADD CONSTRAINT %I %s', home, 'pipestate_reconciliation', rule.key,
      regexp_replace(rule.value, '( NOT VALID)?$', ' NOT VALID'));
  END LOOP;
  DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'pipestate_reconciliation';
  IF ours THEN EXECUTE 'INSERT INTO pipestate_object (kind, name, revision) VALUES (''table'', ''pipestate_reconciliation'', ''0002'') ON CONFLICT DO NOTHING'; END IF;
END $pipestate$;

-- create pipestate_reconciliation
DO $pipestate$
BEGIN
IF to_regclass('pipestate_reconciliation') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE pipestate_reconciliation (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY, 
	started_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	finished_at TIMESTAMP WITH TIME ZONE, 
	triggered_by VARCHAR(20) NOT NULL, 
	actor VARCHAR NOT NULL, 
	revision VARCHAR(32), 
	found INTEGER DEFAULT 0 NOT NULL, 
	recovered INTEGER DEFAULT 0 NOT NULL, 
	skipped INTEGER DEFAULT 0 NOT NULL, 
	failed INTEGER DEFAULT 0 NOT NULL, 
	details JSONB, 
	CONSTRAINT pk_pipestate_reconciliation PRIMARY KEY (id), 
	CONSTRAINT ck_pipestate_reconciliation_triggered_by CHECK (triggered_by IN ('cron', 'manual'))
)$ddl$;
  EXECUTE $ddl$CREATE INDEX idx_pipestate_reconciliation_started_at ON pipestate_reconciliation (started_at)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate_object (kind, name, revision) VALUES ('table', 'pipestate_reconciliation', '0002') ON CONFLICT DO NOTHING$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate_object (kind, name, revision) VALUES ('index', 'idx_pipestate_reconciliation_started_at', '0002') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

UPDATE pipestate_alembic_version SET version_num='0002' WHERE pipestate_alembic_version.version_num = '0001';

COMMIT;

