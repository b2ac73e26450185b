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
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is still running on this database: run this script again later');
END $pipestate$;

BEGIN;

-- Running downgrade 0002 -> 0001

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0002' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision 0002, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

-- drop the ledger, unless it has rows
DO $pipestate$
DECLARE
  used boolean := false;
BEGIN
  IF NOT used AND to_regclass('pipestate.rehearsal') IS NOT NULL THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM pipestate.rehearsal)' INTO used;
  END IF;
  IF NOT used AND to_regclass('pipestate.backfill_progress') IS NOT NULL THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM pipestate.backfill_progress)' INTO used;
  END IF;
  IF NOT used AND to_regclass('pipestate.observation') IS NOT NULL THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM pipestate.observation)' INTO used;
  END IF;
  IF NOT used AND to_regclass('pipestate.attestation') IS NOT NULL THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM pipestate.attestation)' INTO used;
  END IF;
  IF NOT used AND to_regclass('pipestate.result') IS NOT NULL THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM pipestate.result)' INTO used;
  END IF;
  IF NOT used AND to_regclass('pipestate.run') IS NOT NULL THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM pipestate.run WHERE event NOT IN (''upgrade'', ''downgrade'', ''stamp''))' INTO used;
  END IF;
  IF used THEN
    RAISE WARNING 'the ledger has rows, so this downgrade leaves it as it is; the next upgrade finds it again';
    RETURN;
  END IF;
  DROP VIEW IF EXISTS pipestate.compat;
  DROP VIEW IF EXISTS pipestate.rehearsed;
  DROP VIEW IF EXISTS pipestate.backfill;
  DROP VIEW IF EXISTS pipestate.sign_off;
  DROP VIEW IF EXISTS pipestate.soak;
  DROP VIEW IF EXISTS pipestate.soak_since;
  DROP VIEW IF EXISTS pipestate.latest_observation;
  DROP VIEW IF EXISTS pipestate.observed;
  DROP TABLE IF EXISTS pipestate.rehearsal;
  DROP TABLE IF EXISTS pipestate.backfill_progress;
  DROP TABLE IF EXISTS pipestate.observation;
  DROP TABLE IF EXISTS pipestate.attestation;
  DROP TABLE IF EXISTS pipestate.result;
  DROP TABLE IF EXISTS pipestate.run;
  IF to_regnamespace('pipestate') IS NOT NULL AND NOT EXISTS (
      SELECT FROM pg_class WHERE relnamespace = to_regnamespace('pipestate')) THEN
    DROP SCHEMA pipestate;
  END IF;
END $pipestate$;

UPDATE pipestate_alembic_version SET version_num='0001' WHERE pipestate_alembic_version.version_num = '0002';

COMMIT;

