-- Helpers of revisions. The search_path is the caller's, so that a condition means what its script says: every name here
-- is qualified. Without a ledger the same text makes functions of the session, in pg_temp.

-- Refuse a step of a script whose earlier part was not committed. NULL: no script.
CREATE OR REPLACE PROCEDURE pipestate.require_part(the_part text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF the_part <> coalesce(current_setting('pipestate.part', true), '') THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'an earlier step of this revision failed, so this step does nothing: see the error above';
  END IF;
END $$;

-- Say whether a condition holds.
CREATE OR REPLACE FUNCTION pipestate.holds(the_condition text) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  answer boolean;
BEGIN
  EXECUTE pg_catalog.concat('SELECT ', the_condition) INTO answer;
  RETURN coalesce(answer, false);
END $$;

-- Stop with the message where the condition holds.
CREATE OR REPLACE PROCEDURE pipestate.refuse_if(the_condition text, the_message text)
LANGUAGE plpgsql AS $$
BEGIN
  IF pipestate.holds(the_condition) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = the_message;
  END IF;
END $$;

-- Stop with the message where the query finds a text; %s in the message is that text.
CREATE OR REPLACE PROCEDURE pipestate.refuse_found(the_query text, the_message text)
LANGUAGE plpgsql AS $$
DECLARE
  found_text text;
BEGIN
  EXECUTE the_query INTO found_text;
  IF found_text IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(the_message, found_text);
  END IF;
END $$;

-- Stop where rows break a rule. In the condition a row is t.
CREATE OR REPLACE PROCEDURE pipestate.refuse_rows(
  the_table text, the_condition text, the_fault text, the_need text DEFAULT 'true')
LANGUAGE plpgsql AS $$
DECLARE
  bad bigint;
BEGIN
  IF NOT pipestate.holds(the_need) THEN RETURN; END IF;
  EXECUTE pg_catalog.format('SELECT pg_catalog.count(*) FROM %s t WHERE %s', the_table, the_condition) INTO bad;
  IF bad > 0::bigint THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      '%s rows of %s %s. Fix them, then run the same again; to see them: SELECT * FROM %s t WHERE %s',
      bad, the_table, the_fault, the_table, the_condition);
  END IF;
END $$;

-- Run the statements where the condition holds. They are parsed only then.
CREATE OR REPLACE PROCEDURE pipestate.run_if(the_condition text, the_statements text[], the_part text DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
  statement text;
BEGIN
  CALL pipestate.require_part(the_part);
  IF NOT pipestate.holds(the_condition) THEN RETURN; END IF;
  FOREACH statement IN ARRAY the_statements LOOP
    EXECUTE statement;
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
CREATE OR REPLACE PROCEDURE pipestate.require_start(version_table text, wanted text)
LANGUAGE plpgsql AS $$
DECLARE
  actual text;
BEGIN
  EXECUTE pg_catalog.format('SELECT pg_catalog.string_agg(version_num::text, '' ''::text) FROM %s', version_table) INTO actual;
  IF coalesce(actual, '') <> wanted THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision %s, but the '
      'database is at %s: nothing was changed', coalesce(nullif(wanted, ''), 'base'), coalesce(actual, 'base'));
  END IF;
  IF NOT pg_catalog.pg_try_advisory_lock(1885958245, 1937006964) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE =
      'another migration is running on this database: wait for it to end, then run this script again';
  END IF;
END $$;
