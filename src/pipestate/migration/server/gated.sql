-- Say whether this session holds the lock that a drop needs.
CREATE OR REPLACE FUNCTION pipestate.is_locked(relation oid) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted
                 AND l.mode = 'AccessExclusiveLock' AND l.relation = $1
                 AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
$$;

-- Refuse what destroys something where the gate of this revision was not passed in this transaction, or has not locked it.
CREATE OR REPLACE PROCEDURE pipestate.require_token(revision text, relations regclass[], what text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation regclass;
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM revision THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('%s destroys something, and no gate was passed for it: call it inside '
      '`with gate(...)`, or make the revision a Contract', what);
  END IF;
  FOREACH relation IN ARRAY relations LOOP
    IF relation IS NOT NULL AND NOT pipestate.is_locked(relation) THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('%s destroys something of %s, which the gate of this revision has not locked, '
        'so its rows were not checked: name it in gate(..., lock=[...])', what, relation);
    END IF;
  END LOOP;
END $$;

-- The tables that hold rows and are older than this transaction, each with its name, file and columns. Of tables outside the schemas of a
-- tenant the name is enough: its revisions change none of them.
CREATE OR REPLACE FUNCTION pipestate.others(of_tenant jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  schemas text[] := CASE jsonb_typeof(of_tenant) WHEN 'array' THEN ARRAY(SELECT jsonb_array_elements_text(of_tenant)) END;
  ours CONSTANT text[] := '{pipestate,pipestate_archive}';
  made bigint[] := ARRAY(SELECT a.attrelid::bigint FROM pg_locks l JOIN pg_attribute a ON a.attrelid = l.relation AND a.attname = 'ctid'
                          WHERE l.pid = pg_backend_pid() AND l.mode = 'AccessExclusiveLock' AND pipestate.is_of_this_transaction(a.xmin));
  emptied bigint[] := pipestate.emptied();  -- by what came before
BEGIN
  RETURN (
    WITH own AS MATERIALIZED (SELECT * FROM pipestate.catalogue(schemas))
    SELECT coalesce(jsonb_object_agg(t.oid, t.entry), '{}') FROM (
      SELECT c.oid, jsonb_build_object('name', concat(nullif(concat(nullif(c.schema, 'public'), '.'), '.'), c.name),
               'filenode', c.filenode, 'columns', c.columns)
        FROM own c WHERE c.kind = 'r' AND c.bytes <> 0 AND c.schema <> ALL (ours) AND c.oid <> ALL (emptied)
      UNION ALL
      SELECT c.oid::bigint, jsonb_build_object('name', concat(n.nspname, '.', c.relname))
        FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE schemas IS NOT NULL AND c.relkind = 'r' AND c.relpersistence <> 't' AND c.oid >= 16384
         AND n.nspname::text <> ALL (ours) AND c.oid::bigint NOT IN (SELECT o.oid FROM own o)
    ) AS t (oid, entry) WHERE t.oid <> ALL (made));
END $$;

-- Refuse a revision that has dropped or emptied one of those tables, or dropped a column of it, behind its gate. Only tables
-- that were locked since can have lost anything.
CREATE OR REPLACE PROCEDURE pipestate.require_others(
  revision text, path text DEFAULT pg_catalog.current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before jsonb := coalesce(nullif(current_setting('pipestate.others', true), ''), '{}');
  emptied bigint[];
  touched bigint[];
  lost text;
BEGIN
  PERFORM pipestate.fire_deferred(path);
  emptied := pipestate.emptied();
  touched := ARRAY(SELECT l.relation::bigint FROM pg_locks l WHERE l.pid = pg_backend_pid()
    AND l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND before ? l.relation::text
    UNION SELECT e FROM unnest(emptied) AS e WHERE before ? e::text);
  IF touched = '{}' THEN RETURN; END IF;
  SELECT string_agg(before -> t.number::text ->> 'name', ', ' ORDER BY before -> t.number::text ->> 'name') INTO lost
    FROM unnest(touched) AS t (number) LEFT JOIN pg_class c ON c.oid = t.number::oid
   WHERE c.oid IS NULL OR t.number = ANY (emptied) OR NOT before -> t.number::text ? 'columns'
      OR pg_relation_size(c.oid) = 0 AND c.relfilenode::text <> before -> t.number::text ->> 'filenode'
      OR EXISTS (SELECT FROM pipestate.listed_columns(before -> t.number::text ->> 'columns') o
                  WHERE o.number NOT IN (SELECT a.attnum FROM pg_attribute a WHERE a.attrelid = c.oid AND NOT a.attisdropped));
  IF lost IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('revision %s destroys something of %s, which its gate has not locked, '
      'so its rows were not checked: name it in gate(..., lock=[...])', revision, lost);
  END IF;
END $$;

-- Run one statement of a script behind a gate. It does nothing where the gate was not passed in this transaction, or the
-- statement before it failed: each leaves its number. The statement runs on the project's search_path.
CREATE OR REPLACE PROCEDURE pipestate.gated(revision text, step integer, VARIADIC lines text[])
LANGUAGE plpgsql AS $$
BEGIN
  CALL pipestate.require_step(revision, step);
  EXECUTE pg_catalog.array_to_string(lines, E'\n');
  CALL pipestate.end_step(revision, step);
END $$;

-- Refuse what a statement has destroyed outside its gate, and leave its number.
CREATE OR REPLACE PROCEDURE pipestate.end_step(
  revision text, step integer, path text DEFAULT pg_catalog.current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  undone CONSTANT text := 'nothing was lost so far';
BEGIN
  BEGIN  -- only to see what deferred triggers would do: they run with the version row, and may complain until then
    CALL pipestate.require_others(revision, path);
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = undone;
  EXCEPTION WHEN OTHERS THEN
    IF sqlstate = 'PSTAT' AND sqlerrm <> undone THEN RAISE; END IF;
  END;
  PERFORM set_config('pipestate.step', concat(revision, '/', step), true);
END $$;

-- Refuse a statement whose gate was not passed in this transaction, or that does not follow the one before it.
CREATE OR REPLACE PROCEDURE pipestate.require_step(revision text, step integer)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM revision
      OR (step > 1 AND current_setting('pipestate.step', true) IS DISTINCT FROM concat(revision, '/', step - 1)) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'the gate before this statement was not passed in this transaction, or an earlier statement has failed, so this statement does nothing';
  END IF;
END $$;

-- Go on with a revision after a gate, in a new transaction or behind another revision: only where all before it is done.
CREATE OR REPLACE PROCEDURE pipestate.go_on(token text, version_table text, heads text[], path name[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pipestate.versions(version_table, array_to_string(ARRAY(SELECT quote_ident(s::text) FROM unnest('pg_catalog'::name || path) AS s
       WHERE NOT starts_with(s::text, 'pg_temp_')) || 'pg_temp'::text, ', ')) IS DISTINCT FROM heads THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'an earlier part of this script was not done, so this revision does nothing';
  END IF;
  PERFORM set_config('pipestate.gate', token, true), set_config('pipestate.others', '', true);
END $$;
