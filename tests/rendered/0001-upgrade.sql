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

CREATE TABLE IF NOT EXISTS pipestate_alembic_version (
    version_num VARCHAR(32) NOT NULL, 
    CONSTRAINT pipestate_alembic_version_pkc PRIMARY KEY (version_num)
);

-- Running upgrade  -> 0001

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision base, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT relkind NOT IN ('r') FROM pg_class WHERE oid = to_regclass('sites')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('sites exists, but is not a plain table (a view, or partitioned): rename it, or point the chain at another database or search_path');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('sites') IS NOT NULL AND (SELECT string_agg(name, ', ') FROM unnest(ARRAY['subdomain']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname = wanted.name AND NOT attisdropped)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('sites exists, but without %s: it is another table of that name. Rename it, or point the chain at another database or search_path', (SELECT string_agg(name, ', ') FROM unnest(ARRAY['subdomain']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('sites') AND attname = wanted.name AND NOT attisdropped)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('sites') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] WHERE indrelid = to_regclass('sites') AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 AND attname = 'subdomain') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('sites exists, but its subdomain is not unique: add a primary key or a unique index on it, then run the same again');
END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  nameless boolean;
BEGIN
  IF to_regclass('sites') IS NULL THEN RETURN; END IF;
  EXECUTE 'SELECT EXISTS (SELECT FROM sites WHERE subdomain IS NULL)' INTO nameless;
  IF nameless THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('sites has rows without a subdomain, by which the chain finds rows: give them one or delete them, then run the same again');
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT relkind NOT IN ('r') FROM pg_class WHERE oid = to_regclass('site_progress')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('site_progress exists, but is not a plain table (a view, or partitioned): rename it, or point the chain at another database or search_path');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('site_progress') IS NOT NULL AND (SELECT string_agg(name, ', ') FROM unnest(ARRAY['subdomain', 'current_stage', 'stage_total', 'stage_completed', 'started_at', 'updated_at']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('site_progress') AND attname = wanted.name AND NOT attisdropped)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('site_progress exists, but without %s: it is another table of that name. Rename it, or point the chain at another database or search_path', (SELECT string_agg(name, ', ') FROM unnest(ARRAY['subdomain', 'current_stage', 'stage_total', 'stage_completed', 'started_at', 'updated_at']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('site_progress') AND attname = wanted.name AND NOT attisdropped)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pg_attribute JOIN pg_type t ON t.oid = atttypid WHERE attrelid = to_regclass('site_progress') AND attname IN ('started_at', 'updated_at') AND NOT attisdropped AND t.typcategory <> 'D') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('site_progress exists, but the type %s, and the chain compares them with the clock: give them a time''s, as in ALTER TABLE site_progress ALTER COLUMN started_at TYPE timestamptz USING started_at::timestamptz, then run the same again', (SELECT string_agg(format('of %s is %s', attname, format_type(atttypid, NULL)), ', ' ORDER BY attnum) FROM pg_attribute JOIN pg_type t ON t.oid = atttypid WHERE attrelid = to_regclass('site_progress') AND attname IN ('started_at', 'updated_at') AND NOT attisdropped AND t.typcategory <> 'D'));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('site_progress') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] WHERE indrelid = to_regclass('site_progress') AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 AND attname = 'subdomain') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('site_progress exists, but its subdomain is not unique: add a primary key or a unique index on it, then run the same again');
END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  nameless boolean;
BEGIN
  IF to_regclass('site_progress') IS NULL THEN RETURN; END IF;
  EXECUTE 'SELECT EXISTS (SELECT FROM site_progress WHERE subdomain IS NULL)' INTO nameless;
  IF nameless THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('site_progress has rows without a subdomain, by which the chain finds rows: give them one or delete them, then run the same again');
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT relkind NOT IN ('r') FROM pg_class WHERE oid = to_regclass('content_items')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_items exists, but is not a plain table (a view, or partitioned): rename it, or point the chain at another database or search_path');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('content_items') IS NOT NULL AND (SELECT string_agg(name, ', ') FROM unnest(ARRAY['id']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_items') AND attname = wanted.name AND NOT attisdropped)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_items exists, but without %s: it is another table of that name. Rename it, or point the chain at another database or search_path', (SELECT string_agg(name, ', ') FROM unnest(ARRAY['id']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('content_items') AND attname = wanted.name AND NOT attisdropped)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('content_items') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] WHERE indrelid = to_regclass('content_items') AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 AND attname = 'id') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_items exists, but its id is not unique: add a primary key or a unique index on it, then run the same again');
END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  nameless boolean;
BEGIN
  IF to_regclass('content_items') IS NULL THEN RETURN; END IF;
  EXECUTE 'SELECT EXISTS (SELECT FROM content_items WHERE id IS NULL)' INTO nameless;
  IF nameless THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('content_items has rows without a id, by which the chain finds rows: give them one or delete them, then run the same again');
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT relkind NOT IN ('r') FROM pg_class WHERE oid = to_regclass('jobs')) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('jobs exists, but is not a plain table (a view, or partitioned): rename it, or point the chain at another database or search_path');
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('jobs') IS NOT NULL AND (SELECT string_agg(name, ', ') FROM unnest(ARRAY['id', 'status', 'created_at']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('jobs') AND attname = wanted.name AND NOT attisdropped)) IS NOT NULL THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('jobs exists, but without %s: it is another table of that name. Rename it, or point the chain at another database or search_path', (SELECT string_agg(name, ', ') FROM unnest(ARRAY['id', 'status', 'created_at']) AS wanted (name) WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('jobs') AND attname = wanted.name AND NOT attisdropped)));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('jobs') IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0] WHERE indrelid = to_regclass('jobs') AND indisunique AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 AND attname = 'id') THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('jobs exists, but its id is not unique: add a primary key or a unique index on it, then run the same again');
END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  nameless boolean;
BEGIN
  IF to_regclass('jobs') IS NULL THEN RETURN; END IF;
  EXECUTE 'SELECT EXISTS (SELECT FROM jobs WHERE id IS NULL)' INTO nameless;
  IF nameless THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('jobs has rows without a id, by which the chain finds rows: give them one or delete them, then run the same again');
  END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF to_regclass('site_progress') IS NULL AND (SELECT count(*) FILTER (WHERE attname IN ('current_stage', 'ocr_total')) = 2 AND count(*) FILTER (WHERE attname IN ('status', 'last_updated')) = 0 FROM pg_attribute WHERE attrelid = to_regclass('sites') AND NOT attisdropped) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this database is already contracted: sites has its counters, and neither the legacy columns nor site_progress are left. Stamp it: alembic stamp 0001, then alembic upgrade head adds what is missing');
END IF;
END $pipestate$;

-- the registry of created objects
DO $pipestate$
DECLARE
  path_before text := pg_catalog.current_setting('search_path');
  stranger record;
  todo text;
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog', true);
  IF current_user = 'pipestate' AND path_before LIKE '%$user%' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE =
      'the role pipestate has "$user" on its search_path, so the schema pipestate would stand before public '
      'for it: connect as another role, or ALTER ROLE pipestate SET search_path = public';
  END IF;
  SELECT o.what, pg_catalog.pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO stranger
    FROM (SELECT 'the schema pipestate'::text AS what, n.nspowner AS owner
    FROM pg_catalog.pg_namespace n WHERE n.nspname = 'pipestate'
    UNION ALL
    SELECT 'pipestate.' || c.relname::text, c.relowner
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')) AS o
    WHERE NOT ((o.owner = pg_catalog.to_regrole(pg_catalog.quote_ident(current_user::text))::oid
      OR EXISTS (SELECT FROM pg_catalog.pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_catalog.pg_database d
                 WHERE d.datname = pg_catalog.current_database() AND d.datdba = o.owner)
      OR EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relowner = o.owner AND c.oid =
                 pg_catalog.to_regclass(nullif(pg_catalog.current_setting('pipestate.version_table', true), ''))::oid)
      OR (NOT pg_catalog.current_setting('is_superuser') = 'on' AND pg_catalog.pg_has_role(o.owner, 'MEMBER'::text))) AND pg_catalog.pg_has_role(o.owner, 'USAGE'::text)) LIMIT 1;
  IF stranger.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', stranger.what, stranger.owner, stranger.me);
  END IF;
  IF to_regnamespace('pipestate') IS NULL THEN
    CREATE SCHEMA pipestate;
  END IF;
  IF to_regclass('pipestate.object') IS NULL THEN
    CREATE TABLE pipestate.object (
      kind TEXT NOT NULL,
      name TEXT NOT NULL,
      revision TEXT NOT NULL,
      created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
      CONSTRAINT pk_pipestate_object PRIMARY KEY (kind, name)
    );
  END IF;
  SELECT string_agg('ADD COLUMN ' || wanted.definition, ', ') INTO todo
    FROM (VALUES ('kind', $def$kind TEXT$def$),
           ('name', $def$name TEXT$def$),
           ('revision', $def$revision TEXT$def$),
           ('created_at', $def$created_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL$def$)) AS wanted (name, definition)
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pipestate.object'::regclass
                     AND a.attname = wanted.name AND NOT a.attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE 'ALTER TABLE pipestate.object ' || todo;
  END IF;
  PERFORM pg_catalog.set_config('search_path', path_before, true);
END $pipestate$;

-- lock them where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.sites') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.sites') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'sites') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.sites') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'sites') AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- sites out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'sites';
  the_aside CONSTANT text := 'pipestate_archive.sites';
  the_name CONSTANT text := 'sites';
  forget CONSTANT boolean := true;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''sites'', ''0001'') ON CONFLICT DO NOTHING';
  entry record;
  back text;
  rule jsonb;
BEGIN
IF to_regclass(the_aside) IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT origin, definition INTO entry FROM pipestate_archive.manifest
   WHERE kind = 'table' AND name = the_name AND NOT definition ? 'absent';
  IF NOT FOUND THEN RETURN; END IF;
  IF to_regnamespace(entry.origin) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the schema %s, from which %s was archived, is gone: create it, then run the same again',
      entry.origin, the_table);
  END IF;
  back := format('%s.%I', entry.origin, entry.definition ->> 'relation');
  IF to_regclass(back) IS NOT NULL THEN
    IF forget THEN RETURN; END IF;
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists again, so the archived one cannot come back: rename or drop it, then run the same again',
      the_table);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', the_aside, entry.origin);
  FOR rule IN SELECT jsonb_array_elements(entry.definition -> 'foreign_keys') LOOP
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', back, rule ->> 'name',
      CASE WHEN (rule ->> 'validated')::boolean THEN (rule ->> 'definition') || ' NOT VALID'
           ELSE rule ->> 'definition' END);
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON CONSTRAINT %I ON %s IS %L', rule ->> 'name', back, rule ->> 'comment');
    END IF;
  END LOOP;
  IF forget THEN
    DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = the_name;
  ELSE  -- should this run be killed, the next one knows that the table is not somebody else's
    UPDATE pipestate_archive.manifest SET definition = definition || '{"back": true}'
     WHERE kind = 'table' AND name = the_name;
  END IF;
  IF (entry.definition ->> 'ours')::boolean AND remember IS NOT NULL THEN
    EXECUTE remember;
  END IF;
END $pipestate$;

-- create sites
DO $pipestate$
BEGIN
IF to_regclass('sites') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE sites (
	subdomain VARCHAR NOT NULL, 
	name VARCHAR, 
	state VARCHAR, 
	kind VARCHAR, 
	scraper VARCHAR, 
	pages INTEGER, 
	start_year INTEGER, 
	extra VARCHAR, 
	country VARCHAR, 
	lat VARCHAR, 
	lng VARCHAR, 
	status VARCHAR, 
	extraction_status VARCHAR DEFAULT 'pending', 
	last_updated VARCHAR, 
	last_deployed VARCHAR, 
	last_extracted VARCHAR, 
	CONSTRAINT pk_sites PRIMARY KEY (subdomain)
)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('table', 'sites', '0001') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

-- lock them where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.site_progress') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.site_progress') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'site_progress') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.site_progress') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'site_progress') AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- site_progress out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'site_progress';
  the_aside CONSTANT text := 'pipestate_archive.site_progress';
  the_name CONSTANT text := 'site_progress';
  forget CONSTANT boolean := true;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''site_progress'', ''0001'') ON CONFLICT DO NOTHING';
  entry record;
  back text;
  rule jsonb;
BEGIN
IF to_regclass(the_aside) IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT origin, definition INTO entry FROM pipestate_archive.manifest
   WHERE kind = 'table' AND name = the_name AND NOT definition ? 'absent';
  IF NOT FOUND THEN RETURN; END IF;
  IF to_regnamespace(entry.origin) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the schema %s, from which %s was archived, is gone: create it, then run the same again',
      entry.origin, the_table);
  END IF;
  back := format('%s.%I', entry.origin, entry.definition ->> 'relation');
  IF to_regclass(back) IS NOT NULL THEN
    IF forget THEN RETURN; END IF;
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists again, so the archived one cannot come back: rename or drop it, then run the same again',
      the_table);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', the_aside, entry.origin);
  FOR rule IN SELECT jsonb_array_elements(entry.definition -> 'foreign_keys') LOOP
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', back, rule ->> 'name',
      CASE WHEN (rule ->> 'validated')::boolean THEN (rule ->> 'definition') || ' NOT VALID'
           ELSE rule ->> 'definition' END);
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON CONSTRAINT %I ON %s IS %L', rule ->> 'name', back, rule ->> 'comment');
    END IF;
  END LOOP;
  IF forget THEN
    DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = the_name;
  ELSE  -- should this run be killed, the next one knows that the table is not somebody else's
    UPDATE pipestate_archive.manifest SET definition = definition || '{"back": true}'
     WHERE kind = 'table' AND name = the_name;
  END IF;
  IF (entry.definition ->> 'ours')::boolean AND remember IS NOT NULL THEN
    EXECUTE remember;
  END IF;
END $pipestate$;

-- create site_progress
DO $pipestate$
BEGIN
IF to_regclass('site_progress') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE site_progress (
	subdomain VARCHAR NOT NULL, 
	current_stage VARCHAR, 
	stage_total INTEGER DEFAULT 0 NOT NULL, 
	stage_completed INTEGER DEFAULT 0 NOT NULL, 
	started_at TIMESTAMP WITH TIME ZONE, 
	updated_at TIMESTAMP WITH TIME ZONE, 
	CONSTRAINT pk_site_progress PRIMARY KEY (subdomain)
)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('table', 'site_progress', '0001') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

-- lock them where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.content_items') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.content_items') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'content_items') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.content_items') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'content_items') AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- content_items out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'content_items';
  the_aside CONSTANT text := 'pipestate_archive.content_items';
  the_name CONSTANT text := 'content_items';
  forget CONSTANT boolean := true;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''content_items'', ''0001'') ON CONFLICT DO NOTHING';
  entry record;
  back text;
  rule jsonb;
BEGIN
IF to_regclass(the_aside) IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT origin, definition INTO entry FROM pipestate_archive.manifest
   WHERE kind = 'table' AND name = the_name AND NOT definition ? 'absent';
  IF NOT FOUND THEN RETURN; END IF;
  IF to_regnamespace(entry.origin) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the schema %s, from which %s was archived, is gone: create it, then run the same again',
      entry.origin, the_table);
  END IF;
  back := format('%s.%I', entry.origin, entry.definition ->> 'relation');
  IF to_regclass(back) IS NOT NULL THEN
    IF forget THEN RETURN; END IF;
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists again, so the archived one cannot come back: rename or drop it, then run the same again',
      the_table);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', the_aside, entry.origin);
  FOR rule IN SELECT jsonb_array_elements(entry.definition -> 'foreign_keys') LOOP
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', back, rule ->> 'name',
      CASE WHEN (rule ->> 'validated')::boolean THEN (rule ->> 'definition') || ' NOT VALID'
           ELSE rule ->> 'definition' END);
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON CONSTRAINT %I ON %s IS %L', rule ->> 'name', back, rule ->> 'comment');
    END IF;
  END LOOP;
  IF forget THEN
    DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = the_name;
  ELSE  -- should this run be killed, the next one knows that the table is not somebody else's
    UPDATE pipestate_archive.manifest SET definition = definition || '{"back": true}'
     WHERE kind = 'table' AND name = the_name;
  END IF;
  IF (entry.definition ->> 'ours')::boolean AND remember IS NOT NULL THEN
    EXECUTE remember;
  END IF;
END $pipestate$;

-- create content_items
DO $pipestate$
BEGIN
IF to_regclass('content_items') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE content_items (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY, 
	CONSTRAINT pk_content_items PRIMARY KEY (id)
)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('table', 'content_items', '0001') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

-- lock them where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('pipestate_archive.jobs') IS NOT NULL AND to_regclass('pipestate_archive.manifest') IS NOT NULL) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('pipestate_archive.jobs') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'jobs') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds it, since %s: COMMIT PREPARED or ROLLBACK PREPARED it',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds it (what it runs is not shown to %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('pipestate_archive.jobs') UNION SELECT jsonb_array_elements_text(definition -> 'parents') FROM pipestate_archive.manifest WHERE kind = 'table' AND name = 'jobs') AS wanted (t));
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again', targets, '60', coalesce(holders, 'the holder is gone'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', targets, coalesce(holders, 'the holder is gone');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END $pipestate$;

-- jobs out of the archive, where it is there
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'jobs';
  the_aside CONSTANT text := 'pipestate_archive.jobs';
  the_name CONSTANT text := 'jobs';
  forget CONSTANT boolean := true;
  remember CONSTANT text := 'INSERT INTO pipestate.object (kind, name, revision) VALUES (''table'', ''jobs'', ''0001'') ON CONFLICT DO NOTHING';
  entry record;
  back text;
  rule jsonb;
BEGIN
IF to_regclass(the_aside) IS NULL OR to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  SELECT origin, definition INTO entry FROM pipestate_archive.manifest
   WHERE kind = 'table' AND name = the_name AND NOT definition ? 'absent';
  IF NOT FOUND THEN RETURN; END IF;
  IF to_regnamespace(entry.origin) IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the schema %s, from which %s was archived, is gone: create it, then run the same again',
      entry.origin, the_table);
  END IF;
  back := format('%s.%I', entry.origin, entry.definition ->> 'relation');
  IF to_regclass(back) IS NOT NULL THEN
    IF forget THEN RETURN; END IF;
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists again, so the archived one cannot come back: rename or drop it, then run the same again',
      the_table);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', the_aside, entry.origin);
  FOR rule IN SELECT jsonb_array_elements(entry.definition -> 'foreign_keys') LOOP
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', back, rule ->> 'name',
      CASE WHEN (rule ->> 'validated')::boolean THEN (rule ->> 'definition') || ' NOT VALID'
           ELSE rule ->> 'definition' END);
    IF rule ->> 'comment' IS NOT NULL THEN
      EXECUTE format('COMMENT ON CONSTRAINT %I ON %s IS %L', rule ->> 'name', back, rule ->> 'comment');
    END IF;
  END LOOP;
  IF forget THEN
    DELETE FROM pipestate_archive.manifest WHERE kind = 'table' AND name = the_name;
  ELSE  -- should this run be killed, the next one knows that the table is not somebody else's
    UPDATE pipestate_archive.manifest SET definition = definition || '{"back": true}'
     WHERE kind = 'table' AND name = the_name;
  END IF;
  IF (entry.definition ->> 'ours')::boolean AND remember IS NOT NULL THEN
    EXECUTE remember;
  END IF;
END $pipestate$;

-- create jobs
DO $pipestate$
BEGIN
IF to_regclass('jobs') IS NULL THEN
  EXECUTE $ddl$CREATE TABLE jobs (
	id BIGINT GENERATED BY DEFAULT AS IDENTITY, 
	customer_id VARCHAR, 
	package_size INTEGER, 
	status VARCHAR DEFAULT 'pending' NOT NULL, 
	created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL, 
	CONSTRAINT pk_jobs PRIMARY KEY (id)
)$ddl$;
  EXECUTE $ddl$INSERT INTO pipestate.object (kind, name, revision) VALUES ('table', 'jobs', '0001') ON CONFLICT DO NOTHING$ddl$;
END IF;
END $pipestate$;

INSERT INTO pipestate_alembic_version (version_num) VALUES ('0001') RETURNING pipestate_alembic_version.version_num;

COMMIT;

