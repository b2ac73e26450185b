-- Helpers of revisions. `path` is the caller's search_path: on it a project's statements run, and its names are found.
-- Without a ledger the same text makes functions of the session, in pg_temp.

-- Find the relation of that name; NULL where there is none. It reads no rows, so it may be stable: a condition on it uses an index.
CREATE OR REPLACE FUNCTION pipestate.resolve(name text, path text) RETURNS regclass
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('search_path', path, true);
  RETURN pg_catalog.to_regclass(name);
END $$;

-- Write the name of a relation as the project would.
CREATE OR REPLACE FUNCTION pipestate.spelled(relation regclass, path text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('search_path', path, true);
  RETURN relation::text;
END $$;

-- Run a statement of the project.
CREATE OR REPLACE FUNCTION pipestate.execute(statement text, path text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('search_path', path, true);
  EXECUTE statement;
END $$;

-- Return what a query of the project finds first.
CREATE OR REPLACE FUNCTION pipestate.value_of(query text, path text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  value text;
BEGIN
  PERFORM set_config('search_path', path, true);
  EXECUTE query INTO value;
  RETURN value;
END $$;

-- Say whether a condition of the project holds.
CREATE OR REPLACE FUNCTION pipestate.is_true(condition text, path text) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(pipestate.value_of(concat('SELECT ', condition), path)::boolean, false)
$$;

-- Refuse a step of a script whose earlier part was not committed. NULL: no script.
CREATE OR REPLACE PROCEDURE pipestate.require_part(the_part text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF the_part <> coalesce(current_setting('pipestate.part', true), '') THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'an earlier step of this revision failed, so this step does nothing: see the error above';
  END IF;
END $$;

-- Stop with the message where the condition holds.
CREATE OR REPLACE PROCEDURE pipestate.refuse_if(the_condition text, the_message text, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pipestate.is_true(the_condition, path) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = the_message;
  END IF;
END $$;

-- Stop with the message where the query finds a text; %s in the message is that text.
CREATE OR REPLACE PROCEDURE pipestate.refuse_found(the_query text, the_message text, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found_text text := pipestate.value_of(the_query, path);
BEGIN
  IF found_text IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(the_message, found_text);
  END IF;
END $$;

-- Stop where rows break a rule. In the condition a row is t.
CREATE OR REPLACE PROCEDURE pipestate.refuse_rows(
  the_table text, the_condition text, the_fault text, the_need text DEFAULT 'true',
  path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  bad bigint;
BEGIN
  IF NOT pipestate.is_true(the_need, path) THEN RETURN; END IF;
  bad := pipestate.value_of(format('SELECT count(*) FROM %s t WHERE %s', the_table, the_condition), path);
  IF bad > 0 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s rows of %s %s. Fix them, then run the same again; to see them: SELECT * FROM %s t WHERE %s',
      bad, the_table, the_fault, the_table, the_condition);
  END IF;
END $$;

-- Run the statements where the condition holds. They are parsed only then.
CREATE OR REPLACE PROCEDURE pipestate.run_if(
  the_condition text, the_statements text[], the_part text DEFAULT NULL, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  statement text;
BEGIN
  CALL pipestate.require_part(the_part);
  IF NOT pipestate.is_true(the_condition, path) THEN RETURN; END IF;
  FOREACH statement IN ARRAY the_statements LOOP
    PERFORM pipestate.execute(statement, path);
  END LOOP;
END $$;

-- Tell whoever migrates: a driver keeps a warning of the server to itself, so the client reads this setting.
CREATE OR REPLACE PROCEDURE pipestate.say(the_sentence text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE WARNING '%', the_sentence;
  PERFORM set_config('pipestate.said', concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), the_sentence), false);
END $$;

-- Write down what a revision created, so that its downgrade drops that and nothing else. NULL: no registry is kept.
CREATE OR REPLACE PROCEDURE pipestate.remember(the_kind text, the_name text, the_revision text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF the_revision IS NOT NULL THEN
    INSERT INTO pipestate.object (kind, name, revision) VALUES (the_kind, the_name, the_revision) ON CONFLICT DO NOTHING;
  END IF;
END $$;

-- Say whether a downgrade may drop it: with a registry, what a revision of ours created.
CREATE OR REPLACE FUNCTION pipestate.is_ours(the_kind text, the_name text, is_registered boolean DEFAULT true) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT is_registered THEN RETURN true; END IF;  -- there may be no registry that could be read
  RETURN EXISTS (SELECT FROM pipestate.object o WHERE o.kind = the_kind AND o.name = the_name);
END $$;

-- Take an object out of the registry.
CREATE OR REPLACE PROCEDURE pipestate.forget(the_kind text, the_name text, is_registered boolean DEFAULT true)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF is_registered THEN DELETE FROM pipestate.object o WHERE o.kind = the_kind AND o.name = the_name; END IF;
END $$;

-- Refuse a revision of a script where the database is at another version, or where another migration is running.
CREATE OR REPLACE PROCEDURE pipestate.require_start(
  version_table text, wanted text, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  actual text;
BEGIN
  EXECUTE format('SELECT string_agg(version_num, '' '') FROM %s',
    coalesce(pipestate.resolve(version_table, path)::text, version_table)) INTO actual;
  IF coalesce(actual, '') <> wanted THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('this part of the script starts at revision %s, but the '
      'database is at %s: nothing was changed', coalesce(nullif(wanted, ''), 'base'), coalesce(actual, 'base'));
  END IF;
  IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE =
      'another migration is running on this database: wait for it to end, then run this script again';
  END IF;
END $$;
