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

-- Running downgrade 0001 -> 

-- a condition that must not hold
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0001' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision 0001, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
END $pipestate$;

-- a condition that must not hold
DO $pipestate$
BEGIN
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

-- lock jobs where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'jobs')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('jobs') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('jobs') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('jobs') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('jobs') AND contype = 'f') AS wanted (t));
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

DO $pipestate$
DECLARE
  filled boolean;
BEGIN
  PERFORM set_config('pipestate.filled', 'false', true);
  IF to_regclass('jobs') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'jobs') THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM jobs)' INTO filled;
    PERFORM set_config('pipestate.filled', filled::text, true);
  END IF;
END $pipestate$;

-- what could not come back as it was: jobs
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'jobs';
  the_columns CONSTANT text[] := NULL;
  the_revision CONSTANT text := '';
  must_exist CONSTANT boolean := false;
  the_others CONSTANT text[] := ARRAY[]::text[];
  applies CONSTANT boolean := current_setting('pipestate.filled')::boolean;
  relation regclass := to_regclass(the_table);
  numbers smallint[];
  found text;
BEGIN
IF NOT applies THEN RETURN; END IF;
  IF relation IS NULL THEN
    IF must_exist THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, the_table);
    END IF;
    RETURN;
  END IF;
  IF (SELECT relkind <> 'r' OR relispartition FROM pg_class WHERE oid = relation) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is not a plain table (a view, partitioned, a partition or foreign), and cannot be archived: '
      'take it away with Alembic''s own operations behind a gate', the_table);
  END IF;
  SELECT string_agg(other::text, ', ') INTO found FROM (
    SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = relation
    UNION ALL SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = relation) AS family (other);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is in a family of tables (INHERITS) with %s, whose rows and writes pass by an archive: '
      'end that first (ALTER TABLE ... NO INHERIT), then run the same again', the_table, found);
  END IF;

  IF the_columns IS NULL THEN
    SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
      SELECT 'view ' || ev_class::regclass::text FROM pg_depend
        JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND ev_class <> relation
      UNION
      SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND deptype = 'n'
         AND (classid = 'pg_proc'::regclass OR classid = 'pg_policy'::regclass
              AND objid NOT IN (SELECT oid FROM pg_policy WHERE polrelid = relation))
      UNION
      SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
       WHERE contype = 'f' AND confrelid = relation AND conrelid <> confrelid
         AND conrelid <> ALL (SELECT to_regclass(other) FROM unnest(the_others) AS other
                              WHERE to_regclass(other) IS NOT NULL)) AS dependents (what);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s cannot go while others depend on it: %s. Drop or change them, then run the same again',
        the_table, found);
    END IF;
    RETURN;
  END IF;

  IF must_exist THEN
    SELECT string_agg(format('%s.%s', the_table, wanted), ', ') INTO found FROM unnest(the_columns) AS wanted
     WHERE NOT EXISTS (SELECT FROM pg_attribute
                       WHERE attrelid = relation AND attname = wanted AND attnum > 0 AND NOT attisdropped);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, found);
    END IF;
  END IF;
  numbers := ARRAY(SELECT attnum FROM pg_attribute
                   WHERE attrelid = relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped);
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attgenerated <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s computes %s from other columns, which cannot be archived as values: drop that column, '
      'or its expression (ALTER COLUMN ... DROP EXPRESSION), then run the same again', the_table, found);
  END IF;
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attidentity <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s counts %s by itself (GENERATED AS IDENTITY), and its counter would go with it: '
      'ALTER COLUMN ... DROP IDENTITY first, then run the same again', the_table, found);
  END IF;
  SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
    SELECT 'view ' || ev_class::regclass::text FROM pg_depend
      JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND ev_class <> relation
    UNION
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'n' AND classid NOT IN ('pg_rewrite'::regclass, 'pg_constraint'::regclass)
       AND NOT (classid = 'pg_trigger'::regclass
                AND objid IN (SELECT oid FROM pg_trigger WHERE tgname LIKE 'pipestate\_keep\_%'))
    UNION  -- before PostgreSQL 15 a column that is computed from this one would go with it, without a word
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'a' AND classid = 'pg_class'::regclass AND objid = relation AND objsubid <> 0
    UNION
    SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
     WHERE contype = 'f' AND confrelid = relation AND confkey && numbers
    UNION  -- whole rows that are stored elsewhere (an audit table): in them the column would go, and no copy has it
    SELECT format('column %I of %s, which holds rows of it', attname, attrelid::regclass) FROM (
      WITH RECURSIVE row_types (type) AS (
        SELECT reltype FROM pg_class WHERE oid = relation
        UNION  -- arrays, domains and ranges of it, and types and tables with a column of it
        SELECT CASE WHEN c.oid IS NULL THEN d.objid ELSE c.reltype END
          FROM row_types JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
          LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
         WHERE d.classid = 'pg_type'::regclass OR c.reltype <> 0)
      SELECT a.attname, a.attrelid FROM row_types
        JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
             AND d.classid = 'pg_class'::regclass AND d.objsubid > 0
        JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'm')
        JOIN pg_attribute a ON a.attrelid = d.objid AND a.attnum = d.objsubid) AS holding) AS dependents (what);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s of %s cannot go while others depend on it: %s. Drop or change them, then run the same again',
      array_to_string(the_columns, ', '), the_table, found);
  END IF;
END $pipestate$;

-- the archive, where it is missing
DO $pipestate$
BEGIN
  IF NOT (to_regclass('jobs') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  IF to_regnamespace('pipestate_archive') IS NULL THEN
    EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
  END IF;
  IF to_regclass('pipestate_archive.manifest') IS NULL THEN
    EXECUTE $ddl$CREATE TABLE IF NOT EXISTS pipestate_archive.manifest (
    kind text NOT NULL,
    name text NOT NULL,
    revision text DEFAULT '' NOT NULL,
    origin text NOT NULL,
    aside text,
    archived_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition jsonb NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name, revision)
)$ddl$;
  END IF;
END $pipestate$;

-- lock jobs where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('jobs') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('jobs') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('jobs') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('jobs') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('jobs') AND contype = 'f') AS wanted (t));
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

-- jobs into the archive
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'jobs';
  the_aside CONSTANT text := 'pipestate_archive.jobs';
  the_archive CONSTANT text := 'pipestate_archive';
  the_name CONSTANT text := 'jobs';
  is_ours CONSTANT boolean := EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'jobs');
  the_baseline CONSTANT text := NULL;
  applies CONSTANT boolean := current_setting('pipestate.filled')::boolean;
  relation regclass := to_regclass(the_table);
  path text := current_setting('search_path');
  foreign_keys jsonb;
  parents jsonb;
  todo text;
  held boolean;
BEGIN
IF relation IS NULL OR NOT applies THEN RETURN; END IF;
  IF to_regclass(the_aside) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists already, archived from %s: bring that back, or end it with pipestate purge, then run '
      'the same again', the_aside, coalesce((SELECT 'the schema ' || origin FROM pipestate_archive.manifest
                                              WHERE aside = the_aside), 'another table'));
  END IF;
  SELECT string_agg(i.relname, ', ') INTO todo
    FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_class taken ON taken.relname = i.relname
   WHERE indrelid = relation AND taken.relnamespace = to_regnamespace(the_archive);
  IF todo IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the archive %s already has %s, from an earlier archive, and %s has an index of that name: '
      'rename the index, then run the same again', the_archive, todo, the_table);
  END IF;
  PERFORM set_config('search_path', '', true);  -- names in full, whatever the path is on the way back
  SELECT jsonb_agg(jsonb_build_object('name', conname, 'definition', pg_get_constraintdef(oid),
           'validated', convalidated, 'comment', obj_description(oid, 'pg_constraint'))),
         jsonb_agg(DISTINCT confrelid::regclass::text),
         string_agg(format('DROP CONSTRAINT %I', conname), ', ')
    INTO foreign_keys, parents, todo
    FROM pg_constraint WHERE conrelid = relation AND contype = 'f';
  EXECUTE format('SELECT EXISTS (SELECT FROM %s)', relation) INTO held;
  INSERT INTO pipestate_archive.manifest (kind, name, origin, aside, definition)
  SELECT 'table', the_name, relnamespace::regnamespace::text, the_aside, jsonb_build_object(
           'held', held, 'ours', is_ours, 'relation', relname, 'baseline', the_baseline,
           'foreign_keys', coalesce(foreign_keys, '[]'), 'parents', coalesce(parents, '[]'))
    FROM pg_class WHERE oid = relation
  ON CONFLICT (kind, name, revision) DO UPDATE
    SET origin = excluded.origin, aside = excluded.aside, archived_at = excluded.archived_at,
        definition = excluded.definition;
  IF todo IS NOT NULL THEN
    EXECUTE format('ALTER TABLE %s %s', relation, todo);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', relation, the_archive);
  PERFORM set_config('search_path', path, true);
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'jobs') THEN
  EXECUTE $ddl$DROP TABLE IF EXISTS jobs$ddl$;
END IF;
END $pipestate$;

DELETE FROM pipestate.object WHERE kind = 'table' AND name = 'jobs';

-- lock content_items where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'content_items')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_items') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_items') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_items') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_items') AND contype = 'f') AS wanted (t));
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

DO $pipestate$
DECLARE
  filled boolean;
BEGIN
  PERFORM set_config('pipestate.filled', 'false', true);
  IF to_regclass('content_items') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'content_items') THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM content_items)' INTO filled;
    PERFORM set_config('pipestate.filled', filled::text, true);
  END IF;
END $pipestate$;

-- what could not come back as it was: content_items
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'content_items';
  the_columns CONSTANT text[] := NULL;
  the_revision CONSTANT text := '';
  must_exist CONSTANT boolean := false;
  the_others CONSTANT text[] := ARRAY[]::text[];
  applies CONSTANT boolean := current_setting('pipestate.filled')::boolean;
  relation regclass := to_regclass(the_table);
  numbers smallint[];
  found text;
BEGIN
IF NOT applies THEN RETURN; END IF;
  IF relation IS NULL THEN
    IF must_exist THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, the_table);
    END IF;
    RETURN;
  END IF;
  IF (SELECT relkind <> 'r' OR relispartition FROM pg_class WHERE oid = relation) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is not a plain table (a view, partitioned, a partition or foreign), and cannot be archived: '
      'take it away with Alembic''s own operations behind a gate', the_table);
  END IF;
  SELECT string_agg(other::text, ', ') INTO found FROM (
    SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = relation
    UNION ALL SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = relation) AS family (other);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is in a family of tables (INHERITS) with %s, whose rows and writes pass by an archive: '
      'end that first (ALTER TABLE ... NO INHERIT), then run the same again', the_table, found);
  END IF;

  IF the_columns IS NULL THEN
    SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
      SELECT 'view ' || ev_class::regclass::text FROM pg_depend
        JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND ev_class <> relation
      UNION
      SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND deptype = 'n'
         AND (classid = 'pg_proc'::regclass OR classid = 'pg_policy'::regclass
              AND objid NOT IN (SELECT oid FROM pg_policy WHERE polrelid = relation))
      UNION
      SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
       WHERE contype = 'f' AND confrelid = relation AND conrelid <> confrelid
         AND conrelid <> ALL (SELECT to_regclass(other) FROM unnest(the_others) AS other
                              WHERE to_regclass(other) IS NOT NULL)) AS dependents (what);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s cannot go while others depend on it: %s. Drop or change them, then run the same again',
        the_table, found);
    END IF;
    RETURN;
  END IF;

  IF must_exist THEN
    SELECT string_agg(format('%s.%s', the_table, wanted), ', ') INTO found FROM unnest(the_columns) AS wanted
     WHERE NOT EXISTS (SELECT FROM pg_attribute
                       WHERE attrelid = relation AND attname = wanted AND attnum > 0 AND NOT attisdropped);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, found);
    END IF;
  END IF;
  numbers := ARRAY(SELECT attnum FROM pg_attribute
                   WHERE attrelid = relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped);
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attgenerated <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s computes %s from other columns, which cannot be archived as values: drop that column, '
      'or its expression (ALTER COLUMN ... DROP EXPRESSION), then run the same again', the_table, found);
  END IF;
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attidentity <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s counts %s by itself (GENERATED AS IDENTITY), and its counter would go with it: '
      'ALTER COLUMN ... DROP IDENTITY first, then run the same again', the_table, found);
  END IF;
  SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
    SELECT 'view ' || ev_class::regclass::text FROM pg_depend
      JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND ev_class <> relation
    UNION
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'n' AND classid NOT IN ('pg_rewrite'::regclass, 'pg_constraint'::regclass)
       AND NOT (classid = 'pg_trigger'::regclass
                AND objid IN (SELECT oid FROM pg_trigger WHERE tgname LIKE 'pipestate\_keep\_%'))
    UNION  -- before PostgreSQL 15 a column that is computed from this one would go with it, without a word
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'a' AND classid = 'pg_class'::regclass AND objid = relation AND objsubid <> 0
    UNION
    SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
     WHERE contype = 'f' AND confrelid = relation AND confkey && numbers
    UNION  -- whole rows that are stored elsewhere (an audit table): in them the column would go, and no copy has it
    SELECT format('column %I of %s, which holds rows of it', attname, attrelid::regclass) FROM (
      WITH RECURSIVE row_types (type) AS (
        SELECT reltype FROM pg_class WHERE oid = relation
        UNION  -- arrays, domains and ranges of it, and types and tables with a column of it
        SELECT CASE WHEN c.oid IS NULL THEN d.objid ELSE c.reltype END
          FROM row_types JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
          LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
         WHERE d.classid = 'pg_type'::regclass OR c.reltype <> 0)
      SELECT a.attname, a.attrelid FROM row_types
        JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
             AND d.classid = 'pg_class'::regclass AND d.objsubid > 0
        JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'm')
        JOIN pg_attribute a ON a.attrelid = d.objid AND a.attnum = d.objsubid) AS holding) AS dependents (what);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s of %s cannot go while others depend on it: %s. Drop or change them, then run the same again',
      array_to_string(the_columns, ', '), the_table, found);
  END IF;
END $pipestate$;

-- the archive, where it is missing
DO $pipestate$
BEGIN
  IF NOT (to_regclass('content_items') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  IF to_regnamespace('pipestate_archive') IS NULL THEN
    EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
  END IF;
  IF to_regclass('pipestate_archive.manifest') IS NULL THEN
    EXECUTE $ddl$CREATE TABLE IF NOT EXISTS pipestate_archive.manifest (
    kind text NOT NULL,
    name text NOT NULL,
    revision text DEFAULT '' NOT NULL,
    origin text NOT NULL,
    aside text,
    archived_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition jsonb NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name, revision)
)$ddl$;
  END IF;
END $pipestate$;

-- lock content_items where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('content_items') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('content_items') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_items') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('content_items') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('content_items') AND contype = 'f') AS wanted (t));
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

-- content_items into the archive
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'content_items';
  the_aside CONSTANT text := 'pipestate_archive.content_items';
  the_archive CONSTANT text := 'pipestate_archive';
  the_name CONSTANT text := 'content_items';
  is_ours CONSTANT boolean := EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'content_items');
  the_baseline CONSTANT text := NULL;
  applies CONSTANT boolean := current_setting('pipestate.filled')::boolean;
  relation regclass := to_regclass(the_table);
  path text := current_setting('search_path');
  foreign_keys jsonb;
  parents jsonb;
  todo text;
  held boolean;
BEGIN
IF relation IS NULL OR NOT applies THEN RETURN; END IF;
  IF to_regclass(the_aside) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists already, archived from %s: bring that back, or end it with pipestate purge, then run '
      'the same again', the_aside, coalesce((SELECT 'the schema ' || origin FROM pipestate_archive.manifest
                                              WHERE aside = the_aside), 'another table'));
  END IF;
  SELECT string_agg(i.relname, ', ') INTO todo
    FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_class taken ON taken.relname = i.relname
   WHERE indrelid = relation AND taken.relnamespace = to_regnamespace(the_archive);
  IF todo IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the archive %s already has %s, from an earlier archive, and %s has an index of that name: '
      'rename the index, then run the same again', the_archive, todo, the_table);
  END IF;
  PERFORM set_config('search_path', '', true);  -- names in full, whatever the path is on the way back
  SELECT jsonb_agg(jsonb_build_object('name', conname, 'definition', pg_get_constraintdef(oid),
           'validated', convalidated, 'comment', obj_description(oid, 'pg_constraint'))),
         jsonb_agg(DISTINCT confrelid::regclass::text),
         string_agg(format('DROP CONSTRAINT %I', conname), ', ')
    INTO foreign_keys, parents, todo
    FROM pg_constraint WHERE conrelid = relation AND contype = 'f';
  EXECUTE format('SELECT EXISTS (SELECT FROM %s)', relation) INTO held;
  INSERT INTO pipestate_archive.manifest (kind, name, origin, aside, definition)
  SELECT 'table', the_name, relnamespace::regnamespace::text, the_aside, jsonb_build_object(
           'held', held, 'ours', is_ours, 'relation', relname, 'baseline', the_baseline,
           'foreign_keys', coalesce(foreign_keys, '[]'), 'parents', coalesce(parents, '[]'))
    FROM pg_class WHERE oid = relation
  ON CONFLICT (kind, name, revision) DO UPDATE
    SET origin = excluded.origin, aside = excluded.aside, archived_at = excluded.archived_at,
        definition = excluded.definition;
  IF todo IS NOT NULL THEN
    EXECUTE format('ALTER TABLE %s %s', relation, todo);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', relation, the_archive);
  PERFORM set_config('search_path', path, true);
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'content_items') THEN
  EXECUTE $ddl$DROP TABLE IF EXISTS content_items$ddl$;
END IF;
END $pipestate$;

DELETE FROM pipestate.object WHERE kind = 'table' AND name = 'content_items';

-- lock site_progress where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'site_progress')) THEN RETURN; END IF;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('site_progress') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f') AS wanted (t));
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

DO $pipestate$
DECLARE
  filled boolean;
BEGIN
  PERFORM set_config('pipestate.filled', 'false', true);
  IF to_regclass('site_progress') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'site_progress') THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM site_progress)' INTO filled;
    PERFORM set_config('pipestate.filled', filled::text, true);
  END IF;
END $pipestate$;

-- what could not come back as it was: site_progress
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'site_progress';
  the_columns CONSTANT text[] := NULL;
  the_revision CONSTANT text := '';
  must_exist CONSTANT boolean := false;
  the_others CONSTANT text[] := ARRAY[]::text[];
  applies CONSTANT boolean := current_setting('pipestate.filled')::boolean;
  relation regclass := to_regclass(the_table);
  numbers smallint[];
  found text;
BEGIN
IF NOT applies THEN RETURN; END IF;
  IF relation IS NULL THEN
    IF must_exist THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, the_table);
    END IF;
    RETURN;
  END IF;
  IF (SELECT relkind <> 'r' OR relispartition FROM pg_class WHERE oid = relation) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is not a plain table (a view, partitioned, a partition or foreign), and cannot be archived: '
      'take it away with Alembic''s own operations behind a gate', the_table);
  END IF;
  SELECT string_agg(other::text, ', ') INTO found FROM (
    SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = relation
    UNION ALL SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = relation) AS family (other);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is in a family of tables (INHERITS) with %s, whose rows and writes pass by an archive: '
      'end that first (ALTER TABLE ... NO INHERIT), then run the same again', the_table, found);
  END IF;

  IF the_columns IS NULL THEN
    SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
      SELECT 'view ' || ev_class::regclass::text FROM pg_depend
        JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND ev_class <> relation
      UNION
      SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND deptype = 'n'
         AND (classid = 'pg_proc'::regclass OR classid = 'pg_policy'::regclass
              AND objid NOT IN (SELECT oid FROM pg_policy WHERE polrelid = relation))
      UNION
      SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
       WHERE contype = 'f' AND confrelid = relation AND conrelid <> confrelid
         AND conrelid <> ALL (SELECT to_regclass(other) FROM unnest(the_others) AS other
                              WHERE to_regclass(other) IS NOT NULL)) AS dependents (what);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s cannot go while others depend on it: %s. Drop or change them, then run the same again',
        the_table, found);
    END IF;
    RETURN;
  END IF;

  IF must_exist THEN
    SELECT string_agg(format('%s.%s', the_table, wanted), ', ') INTO found FROM unnest(the_columns) AS wanted
     WHERE NOT EXISTS (SELECT FROM pg_attribute
                       WHERE attrelid = relation AND attname = wanted AND attnum > 0 AND NOT attisdropped);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, found);
    END IF;
  END IF;
  numbers := ARRAY(SELECT attnum FROM pg_attribute
                   WHERE attrelid = relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped);
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attgenerated <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s computes %s from other columns, which cannot be archived as values: drop that column, '
      'or its expression (ALTER COLUMN ... DROP EXPRESSION), then run the same again', the_table, found);
  END IF;
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attidentity <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s counts %s by itself (GENERATED AS IDENTITY), and its counter would go with it: '
      'ALTER COLUMN ... DROP IDENTITY first, then run the same again', the_table, found);
  END IF;
  SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
    SELECT 'view ' || ev_class::regclass::text FROM pg_depend
      JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND ev_class <> relation
    UNION
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'n' AND classid NOT IN ('pg_rewrite'::regclass, 'pg_constraint'::regclass)
       AND NOT (classid = 'pg_trigger'::regclass
                AND objid IN (SELECT oid FROM pg_trigger WHERE tgname LIKE 'pipestate\_keep\_%'))
    UNION  -- before PostgreSQL 15 a column that is computed from this one would go with it, without a word
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'a' AND classid = 'pg_class'::regclass AND objid = relation AND objsubid <> 0
    UNION
    SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
     WHERE contype = 'f' AND confrelid = relation AND confkey && numbers
    UNION  -- whole rows that are stored elsewhere (an audit table): in them the column would go, and no copy has it
    SELECT format('column %I of %s, which holds rows of it', attname, attrelid::regclass) FROM (
      WITH RECURSIVE row_types (type) AS (
        SELECT reltype FROM pg_class WHERE oid = relation
        UNION  -- arrays, domains and ranges of it, and types and tables with a column of it
        SELECT CASE WHEN c.oid IS NULL THEN d.objid ELSE c.reltype END
          FROM row_types JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
          LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
         WHERE d.classid = 'pg_type'::regclass OR c.reltype <> 0)
      SELECT a.attname, a.attrelid FROM row_types
        JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
             AND d.classid = 'pg_class'::regclass AND d.objsubid > 0
        JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'm')
        JOIN pg_attribute a ON a.attrelid = d.objid AND a.attnum = d.objsubid) AS holding) AS dependents (what);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s of %s cannot go while others depend on it: %s. Drop or change them, then run the same again',
      array_to_string(the_columns, ', '), the_table, found);
  END IF;
END $pipestate$;

-- the archive, where it is missing
DO $pipestate$
BEGIN
  IF NOT (to_regclass('site_progress') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  IF to_regnamespace('pipestate_archive') IS NULL THEN
    EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
  END IF;
  IF to_regclass('pipestate_archive.manifest') IS NULL THEN
    EXECUTE $ddl$CREATE TABLE IF NOT EXISTS pipestate_archive.manifest (
    kind text NOT NULL,
    name text NOT NULL,
    revision text DEFAULT '' NOT NULL,
    origin text NOT NULL,
    aside text,
    archived_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition jsonb NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name, revision)
)$ddl$;
  END IF;
END $pipestate$;

-- lock site_progress where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('site_progress') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('site_progress') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('site_progress') AND contype = 'f') AS wanted (t));
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

-- site_progress into the archive
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'site_progress';
  the_aside CONSTANT text := 'pipestate_archive.site_progress';
  the_archive CONSTANT text := 'pipestate_archive';
  the_name CONSTANT text := 'site_progress';
  is_ours CONSTANT boolean := EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'site_progress');
  the_baseline CONSTANT text := NULL;
  applies CONSTANT boolean := current_setting('pipestate.filled')::boolean;
  relation regclass := to_regclass(the_table);
  path text := current_setting('search_path');
  foreign_keys jsonb;
  parents jsonb;
  todo text;
  held boolean;
BEGIN
IF relation IS NULL OR NOT applies THEN RETURN; END IF;
  IF to_regclass(the_aside) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists already, archived from %s: bring that back, or end it with pipestate purge, then run '
      'the same again', the_aside, coalesce((SELECT 'the schema ' || origin FROM pipestate_archive.manifest
                                              WHERE aside = the_aside), 'another table'));
  END IF;
  SELECT string_agg(i.relname, ', ') INTO todo
    FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_class taken ON taken.relname = i.relname
   WHERE indrelid = relation AND taken.relnamespace = to_regnamespace(the_archive);
  IF todo IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the archive %s already has %s, from an earlier archive, and %s has an index of that name: '
      'rename the index, then run the same again', the_archive, todo, the_table);
  END IF;
  PERFORM set_config('search_path', '', true);  -- names in full, whatever the path is on the way back
  SELECT jsonb_agg(jsonb_build_object('name', conname, 'definition', pg_get_constraintdef(oid),
           'validated', convalidated, 'comment', obj_description(oid, 'pg_constraint'))),
         jsonb_agg(DISTINCT confrelid::regclass::text),
         string_agg(format('DROP CONSTRAINT %I', conname), ', ')
    INTO foreign_keys, parents, todo
    FROM pg_constraint WHERE conrelid = relation AND contype = 'f';
  EXECUTE format('SELECT EXISTS (SELECT FROM %s)', relation) INTO held;
  INSERT INTO pipestate_archive.manifest (kind, name, origin, aside, definition)
  SELECT 'table', the_name, relnamespace::regnamespace::text, the_aside, jsonb_build_object(
           'held', held, 'ours', is_ours, 'relation', relname, 'baseline', the_baseline,
           'foreign_keys', coalesce(foreign_keys, '[]'), 'parents', coalesce(parents, '[]'))
    FROM pg_class WHERE oid = relation
  ON CONFLICT (kind, name, revision) DO UPDATE
    SET origin = excluded.origin, aside = excluded.aside, archived_at = excluded.archived_at,
        definition = excluded.definition;
  IF todo IS NOT NULL THEN
    EXECUTE format('ALTER TABLE %s %s', relation, todo);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', relation, the_archive);
  PERFORM set_config('search_path', path, true);
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'site_progress') THEN
  EXECUTE $ddl$DROP TABLE IF EXISTS site_progress$ddl$;
END IF;
END $pipestate$;

DELETE FROM pipestate.object WHERE kind = 'table' AND name = 'site_progress';

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'sites')) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('sites') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('sites') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('sites') AND contype = 'f') AS wanted (t));
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

DO $pipestate$
DECLARE
  filled boolean;
BEGIN
  PERFORM set_config('pipestate.filled', 'false', true);
  IF to_regclass('sites') IS NOT NULL AND EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'sites') THEN
    EXECUTE 'SELECT EXISTS (SELECT FROM sites)' INTO filled;
    PERFORM set_config('pipestate.filled', filled::text, true);
  END IF;
END $pipestate$;

-- what could not come back as it was: sites
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'sites';
  the_columns CONSTANT text[] := NULL;
  the_revision CONSTANT text := '';
  must_exist CONSTANT boolean := false;
  the_others CONSTANT text[] := ARRAY[]::text[];
  applies CONSTANT boolean := current_setting('pipestate.filled')::boolean;
  relation regclass := to_regclass(the_table);
  numbers smallint[];
  found text;
BEGIN
IF NOT applies THEN RETURN; END IF;
  IF relation IS NULL THEN
    IF must_exist THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, the_table);
    END IF;
    RETURN;
  END IF;
  IF (SELECT relkind <> 'r' OR relispartition FROM pg_class WHERE oid = relation) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is not a plain table (a view, partitioned, a partition or foreign), and cannot be archived: '
      'take it away with Alembic''s own operations behind a gate', the_table);
  END IF;
  SELECT string_agg(other::text, ', ') INTO found FROM (
    SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent = relation
    UNION ALL SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = relation) AS family (other);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s is in a family of tables (INHERITS) with %s, whose rows and writes pass by an archive: '
      'end that first (ALTER TABLE ... NO INHERIT), then run the same again', the_table, found);
  END IF;

  IF the_columns IS NULL THEN
    SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
      SELECT 'view ' || ev_class::regclass::text FROM pg_depend
        JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND ev_class <> relation
      UNION
      SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
       WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND deptype = 'n'
         AND (classid = 'pg_proc'::regclass OR classid = 'pg_policy'::regclass
              AND objid NOT IN (SELECT oid FROM pg_policy WHERE polrelid = relation))
      UNION
      SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
       WHERE contype = 'f' AND confrelid = relation AND conrelid <> confrelid
         AND conrelid <> ALL (SELECT to_regclass(other) FROM unnest(the_others) AS other
                              WHERE to_regclass(other) IS NOT NULL)) AS dependents (what);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s cannot go while others depend on it: %s. Drop or change them, then run the same again',
        the_table, found);
    END IF;
    RETURN;
  END IF;

  IF must_exist THEN
    SELECT string_agg(format('%s.%s', the_table, wanted), ', ') INTO found FROM unnest(the_columns) AS wanted
     WHERE NOT EXISTS (SELECT FROM pg_attribute
                       WHERE attrelid = relation AND attname = wanted AND attnum > 0 AND NOT attisdropped);
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'revision %s takes %s away, which does not exist: fix its name, or write may_be_gone=True where that is right',
        the_revision, found);
    END IF;
  END IF;
  numbers := ARRAY(SELECT attnum FROM pg_attribute
                   WHERE attrelid = relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped);
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attgenerated <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s computes %s from other columns, which cannot be archived as values: drop that column, '
      'or its expression (ALTER COLUMN ... DROP EXPRESSION), then run the same again', the_table, found);
  END IF;
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = relation AND attnum = ANY (numbers) AND attidentity <> '';
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s counts %s by itself (GENERATED AS IDENTITY), and its counter would go with it: '
      'ALTER COLUMN ... DROP IDENTITY first, then run the same again', the_table, found);
  END IF;
  SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
    SELECT 'view ' || ev_class::regclass::text FROM pg_depend
      JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND ev_class <> relation
    UNION
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'n' AND classid NOT IN ('pg_rewrite'::regclass, 'pg_constraint'::regclass)
       AND NOT (classid = 'pg_trigger'::regclass
                AND objid IN (SELECT oid FROM pg_trigger WHERE tgname LIKE 'pipestate\_keep\_%'))
    UNION  -- before PostgreSQL 15 a column that is computed from this one would go with it, without a word
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = relation AND refobjsubid = ANY (numbers)
       AND deptype = 'a' AND classid = 'pg_class'::regclass AND objid = relation AND objsubid <> 0
    UNION
    SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
     WHERE contype = 'f' AND confrelid = relation AND confkey && numbers
    UNION  -- whole rows that are stored elsewhere (an audit table): in them the column would go, and no copy has it
    SELECT format('column %I of %s, which holds rows of it', attname, attrelid::regclass) FROM (
      WITH RECURSIVE row_types (type) AS (
        SELECT reltype FROM pg_class WHERE oid = relation
        UNION  -- arrays, domains and ranges of it, and types and tables with a column of it
        SELECT CASE WHEN c.oid IS NULL THEN d.objid ELSE c.reltype END
          FROM row_types JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
          LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
         WHERE d.classid = 'pg_type'::regclass OR c.reltype <> 0)
      SELECT a.attname, a.attrelid FROM row_types
        JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
             AND d.classid = 'pg_class'::regclass AND d.objsubid > 0
        JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'm')
        JOIN pg_attribute a ON a.attrelid = d.objid AND a.attnum = d.objsubid) AS holding) AS dependents (what);
  IF found IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s of %s cannot go while others depend on it: %s. Drop or change them, then run the same again',
      array_to_string(the_columns, ', '), the_table, found);
  END IF;
END $pipestate$;

-- the archive, where it is missing
DO $pipestate$
BEGIN
  IF NOT (to_regclass('sites') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  IF to_regnamespace('pipestate_archive') IS NULL THEN
    EXECUTE $ddl$CREATE SCHEMA pipestate_archive$ddl$;
  END IF;
  IF to_regclass('pipestate_archive.manifest') IS NULL THEN
    EXECUTE $ddl$CREATE TABLE IF NOT EXISTS pipestate_archive.manifest (
    kind text NOT NULL,
    name text NOT NULL,
    revision text DEFAULT '' NOT NULL,
    origin text NOT NULL,
    aside text,
    archived_at timestamp with time zone DEFAULT CURRENT_TIMESTAMP NOT NULL,
    definition jsonb NOT NULL,
    CONSTRAINT pk_manifest PRIMARY KEY (kind, name, revision)
)$ddl$;
  END IF;
END $pipestate$;

-- lock sites where needed: 200 ms at a time, for up to 60 s
DO $pipestate$
DECLARE
  targets text;
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + interval '60 seconds';
BEGIN
  IF NOT (to_regclass('sites') IS NOT NULL AND (current_setting('pipestate.filled')::boolean)) THEN RETURN; END IF;
  SELECT string_agg(to_regclass(t)::text, ', ') INTO targets
  FROM (VALUES ('sites') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('sites') AND contype = 'f') AS wanted (t) WHERE to_regclass(t) IS NOT NULL;
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
         AND l.relation IN (SELECT to_regclass(t) FROM (VALUES ('sites') UNION SELECT confrelid::regclass::text FROM pg_constraint WHERE conrelid = to_regclass('sites') AND contype = 'f') AS wanted (t));
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

-- sites into the archive
DO $pipestate$
DECLARE
  the_table CONSTANT text := 'sites';
  the_aside CONSTANT text := 'pipestate_archive.sites';
  the_archive CONSTANT text := 'pipestate_archive';
  the_name CONSTANT text := 'sites';
  is_ours CONSTANT boolean := EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'sites');
  the_baseline CONSTANT text := NULL;
  applies CONSTANT boolean := current_setting('pipestate.filled')::boolean;
  relation regclass := to_regclass(the_table);
  path text := current_setting('search_path');
  foreign_keys jsonb;
  parents jsonb;
  todo text;
  held boolean;
BEGIN
IF relation IS NULL OR NOT applies THEN RETURN; END IF;
  IF to_regclass(the_aside) IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s exists already, archived from %s: bring that back, or end it with pipestate purge, then run '
      'the same again', the_aside, coalesce((SELECT 'the schema ' || origin FROM pipestate_archive.manifest
                                              WHERE aside = the_aside), 'another table'));
  END IF;
  SELECT string_agg(i.relname, ', ') INTO todo
    FROM pg_index JOIN pg_class i ON i.oid = indexrelid JOIN pg_class taken ON taken.relname = i.relname
   WHERE indrelid = relation AND taken.relnamespace = to_regnamespace(the_archive);
  IF todo IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the archive %s already has %s, from an earlier archive, and %s has an index of that name: '
      'rename the index, then run the same again', the_archive, todo, the_table);
  END IF;
  PERFORM set_config('search_path', '', true);  -- names in full, whatever the path is on the way back
  SELECT jsonb_agg(jsonb_build_object('name', conname, 'definition', pg_get_constraintdef(oid),
           'validated', convalidated, 'comment', obj_description(oid, 'pg_constraint'))),
         jsonb_agg(DISTINCT confrelid::regclass::text),
         string_agg(format('DROP CONSTRAINT %I', conname), ', ')
    INTO foreign_keys, parents, todo
    FROM pg_constraint WHERE conrelid = relation AND contype = 'f';
  EXECUTE format('SELECT EXISTS (SELECT FROM %s)', relation) INTO held;
  INSERT INTO pipestate_archive.manifest (kind, name, origin, aside, definition)
  SELECT 'table', the_name, relnamespace::regnamespace::text, the_aside, jsonb_build_object(
           'held', held, 'ours', is_ours, 'relation', relname, 'baseline', the_baseline,
           'foreign_keys', coalesce(foreign_keys, '[]'), 'parents', coalesce(parents, '[]'))
    FROM pg_class WHERE oid = relation
  ON CONFLICT (kind, name, revision) DO UPDATE
    SET origin = excluded.origin, aside = excluded.aside, archived_at = excluded.archived_at,
        definition = excluded.definition;
  IF todo IS NOT NULL THEN
    EXECUTE format('ALTER TABLE %s %s', relation, todo);
  END IF;
  EXECUTE format('ALTER TABLE %s SET SCHEMA %s', relation, the_archive);
  PERFORM set_config('search_path', path, true);
END $pipestate$;

DO $pipestate$
BEGIN
IF EXISTS (SELECT FROM pipestate.object WHERE kind = 'table' AND name = 'sites') THEN
  EXECUTE $ddl$DROP TABLE IF EXISTS sites$ddl$;
END IF;
END $pipestate$;

DELETE FROM pipestate.object WHERE kind = 'table' AND name = 'sites';

-- the registry of created objects
DO $pipestate$
BEGIN
  IF to_regclass('pipestate.object') IS NOT NULL AND to_regclass('pipestate.run') IS NULL THEN
    DROP TABLE pipestate.object;
  END IF;
  IF to_regnamespace('pipestate') IS NOT NULL AND NOT EXISTS (
      SELECT FROM pg_class WHERE relnamespace = to_regnamespace('pipestate')) THEN
    DROP SCHEMA pipestate;
  END IF;
END $pipestate$;

DO $pipestate$
DECLARE
  used boolean;
BEGIN
  IF to_regclass('pipestate_archive.manifest') IS NULL THEN RETURN; END IF;
  EXECUTE 'SELECT EXISTS (SELECT FROM pipestate_archive.manifest)' INTO used;
  IF NOT used THEN
    DROP TABLE pipestate_archive.manifest;
    IF NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace('pipestate_archive')) THEN
      DROP SCHEMA pipestate_archive;
    END IF;
  END IF;
END $pipestate$;

DELETE FROM pipestate_alembic_version WHERE pipestate_alembic_version.version_num = '0001';

COMMIT;

