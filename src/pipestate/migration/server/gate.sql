-- Return what this gate has remembered since it began; refuse where another part of it failed or was left out.
CREATE OR REPLACE FUNCTION pipestate.gate_state(revision text, pass text) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state jsonb := nullif(current_setting('pipestate.gate_state', true), '')::jsonb;
BEGIN
  IF state ->> 'revision' IS DISTINCT FROM revision OR state ->> 'pass' IS DISTINCT FROM pass THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE =
      'an earlier part of this gate failed or was left out, so this one does nothing: run the whole script';
  END IF;
  RETURN state;
END $$;

-- Write a search_path on which the server's own names come first and temporary tables last.
CREATE OR REPLACE FUNCTION pipestate.safe_path(path name[]) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT concat_ws(', ', 'pg_catalog', (SELECT string_agg(quote_ident(s.name::text), ', ' ORDER BY s.place)
    FROM unnest(path) WITH ORDINALITY AS s (name, place)
    WHERE s.name <> 'pg_catalog' AND NOT starts_with(s.name::text, 'pg_temp_')), 'pg_temp')
$$;

-- Refuse a revision, up or down, whose tables or expressions another role could replace.
CREATE OR REPLACE PROCEDURE pipestate.require_session(revision text, path name[], names text, force text DEFAULT NULL)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found text := pipestate.impostors(path::text[], names);
  said text := format('revision %s uses what another role has put on the search path in the place of others: %s. Nothing of it was '
    'done. Drop that, or take its schema off the path', revision, found);
BEGIN
  -- Definitions are read and written as text, which these settings would change.
  PERFORM set_config('standard_conforming_strings', 'on', false), set_config('quote_all_identifiers', 'off', false);
  IF found IS NULL THEN RETURN; END IF;
  IF force IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = said;
  END IF;
  RAISE WARNING '%', said;
END $$;

-- Begin the gate of a revision: refuse where its answer could not be trusted, find its tables, see whether there are
-- rows to lose, and set the timeout of each check. From here on the settings of the transaction remember the gate.
CREATE OR REPLACE PROCEDURE pipestate.begin_gate(
  revision text, runbook text, phase text, tables text[], path name[], timeout text,
  may_be_gone boolean DEFAULT false, version_table text DEFAULT NULL, starts_at text[] DEFAULT NULL,
  sha256 text DEFAULT NULL, files text DEFAULT '', actor text DEFAULT NULL, force text DEFAULT NULL,
  enforce boolean DEFAULT true, undo text DEFAULT NULL, token text DEFAULT NULL, step integer DEFAULT NULL)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on AS $$
DECLARE
  safe_path text := pipestate.safe_path(path);
  versions text[];
  named text;
  relation regclass;
  relations oid[] := '{}';
BEGIN
  IF token IS NOT NULL THEN  -- of the revision before, in the same script
    CALL pipestate.require_step(token, step);
  END IF;
  PERFORM set_config('pipestate.gate', '', true), set_config('pipestate.gate_state', '', true);
  CALL pipestate.require_session(revision, path, array_to_string(tables, ' '), force);
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate of revision %s needs READ COMMITTED, and this transaction is %s: '
      'under its lock it would not see rows that were written meanwhile. Give the engine isolation_level=''READ COMMITTED'', or change '
      'default_transaction_isolation of the role or the database', revision, upper(current_setting('transaction_isolation')));
  END IF;
  IF version_table IS NOT NULL THEN
    IF current_setting('client_encoding') <> 'UTF8' THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('this script is written in UTF-8, and the session reads %s: '
        'run all of it, or \encoding UTF8 first', current_setting('client_encoding'));
    END IF;
    versions := pipestate.versions(version_table, safe_path);
    IF NOT versions @> starts_at OR versions @> ARRAY[revision] THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('revision %s starts at %s, but the database is at %s: nothing of it was done',
        revision, coalesce(nullif(array_to_string(starts_at, ' and '), ''), 'base'),
        coalesce(nullif(array_to_string(versions, ' '), ''), 'base'));
    END IF;
  END IF;
  FOREACH named IN ARRAY tables LOOP
    relation := (pipestate.read_only(format('SELECT pg_catalog.to_json(pg_catalog.to_regclass(%L)::pg_catalog.oid)', named), safe_path, '')
      #>> '{}')::oid;
    IF relation IS NULL AND NOT may_be_gone THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('revision %s locks %s, which does not exist: correct the name in that '
        'revision, or write may_be_gone=True where that is right', revision, named);
    ELSIF EXISTS (SELECT FROM pg_class c WHERE c.oid = relation AND c.relkind = 'v') THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('revision %s locks %s, which is a view, and its rows are not those of the '
        'tables below it: name the tables', revision, named);
    ELSIF relation IS NOT NULL THEN
      relations := relations || relation::oid;
    ELSE
      SELECT c.oid INTO relation FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
       WHERE c.relkind IN ('r', 'p') AND btrim(lower(replace(named, '"', ''))) IN (lower(format('%s.%s', n.nspname, c.relname)),
         CASE WHEN n.nspname = ANY (path) THEN lower(c.relname::text) END) LIMIT 1;
      IF relation IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('revision %s locks %s, which does not exist, but %s does: '
          'write its name as it is spelt there', revision, named, relation);
      END IF;
    END IF;
  END LOOP;
  PERFORM set_config('pipestate.gate_state', jsonb_build_object('revision', revision, 'pass', 'first', 'runbook', runbook,
      'phase', phase, 'tables', tables, 'relations', relations, 'path', safe_path,
      'of_tenant', CASE WHEN current_setting('pipestate.tenant', true) <> '' THEN path::text[] END, 'sha256', sha256, 'files', files,
      'actor', coalesce(actor, current_user), 'force', force, 'enforce', enforce, 'undo', undo,
      'timeout_before', current_setting('statement_timeout'), 'checks', '[]'::jsonb, 'results', '[]'::jsonb,
      'filled', EXISTS (SELECT FROM unnest(relations) AS r WHERE pipestate.has_rows(r, safe_path)))::text, true),
    set_config('statement_timeout', timeout, true);
END $$;

-- Read which revisions a version table holds.
CREATE OR REPLACE FUNCTION pipestate.versions(version_table text, path text) RETURNS text[]
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(SELECT json_array_elements_text(pipestate.read_only(format('SELECT coalesce(pg_catalog.json_agg(v.version_num::text '
    'ORDER BY v.version_num::text COLLATE pg_catalog."C"), ''[]'') FROM %s AS v', version_table), path, '')))
$$;

-- Evaluate one check of the phase, where there are rows to lose, and remember it for the pass under the lock.
-- `number` counts the checks of this gate; `again` says that a late write could turn this one; a query of ours, as that of a sign-off,
-- does not look at the project's search path.
CREATE OR REPLACE PROCEDURE pipestate.evaluate_check(
  revision text, number integer, check_id text, required text, source text, query text, frame text DEFAULT NULL,
  shows_rows boolean DEFAULT false, again boolean DEFAULT false, level text DEFAULT 'block', is_ours boolean DEFAULT false)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state jsonb := pipestate.gate_state(revision, 'first');
  task jsonb := jsonb_build_object('check_id', check_id, 'required', required, 'source', source, 'query', query,
    'frame', coalesce(frame, (SELECT c ->> 'frame' FROM jsonb_array_elements(state -> 'checks') AS c
      WHERE c ->> 'required' = evaluate_check.required LIMIT 1)), 'shows_rows', shows_rows, 'again', again, 'level', level, 'path', CASE WHEN is_ours THEN 'pg_catalog, pg_temp' END);
BEGIN
  IF jsonb_array_length(state -> 'checks') <> number - 1 THEN
    PERFORM pipestate.gate_state(revision, 'broken off');
  END IF;
  state := jsonb_set(state, '{checks}', (state -> 'checks') || jsonb_build_array(task));
  IF (state ->> 'filled')::boolean THEN
    state := jsonb_set(state, '{results}', (state -> 'results') || pipestate.evaluate(task, coalesce(task ->> 'path', state ->> 'path'), state ->> 'files'));
  END IF;
  PERFORM set_config('pipestate.gate_state', state::text, true);
END $$;

-- Judge the pass without a lock: `checks` is how many there must be. A closed gate ends here. What other tables hold is
-- read now, because that takes time in a large database.
CREATE OR REPLACE PROCEDURE pipestate.judge_gate(revision text, checks integer)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state jsonb := pipestate.gate_state(revision, 'first');
BEGIN
  PERFORM set_config('statement_timeout', state ->> 'timeout_before', true);
  IF jsonb_array_length(state -> 'checks') <> checks THEN
    PERFORM pipestate.gate_state(revision, 'broken off');
  END IF;
  IF (state ->> 'filled')::boolean THEN
    state := pipestate.settle_gate(state, true);
  END IF;
  PERFORM set_config('pipestate.gate_state', (state || jsonb_build_object('pass', 'judged', 'locked', ARRAY(SELECT l.relation::bigint
      FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock')))::text, true),
    set_config('pipestate.others', CASE WHEN (state ->> 'enforce')::boolean AND state ->> 'force' IS NULL
      THEN pipestate.others(state -> 'of_tenant')::text ELSE '{}' END, true);
END $$;

-- Evaluate again, under the lock: what a late write could turn, or the whole phase where the tables were empty before.
CREATE OR REPLACE PROCEDURE pipestate.evaluate_again(revision text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state jsonb := pipestate.gate_state(revision, 'judged');
  relation oid;
  filled boolean := false;
  task jsonb;
  results jsonb := '[]';
BEGIN
  FOR relation IN SELECT jsonb_array_elements_text(state -> 'relations')::oid LOOP
    IF NOT pipestate.is_locked(relation) THEN
      PERFORM pipestate.gate_state(revision, 'broken off');
    END IF;
    filled := filled OR pipestate.has_rows(relation, state ->> 'path');
  END LOOP;
  FOR task IN SELECT jsonb_array_elements(state -> 'checks') LOOP
    IF filled AND ((task ->> 'again')::boolean OR NOT (state ->> 'filled')::boolean) THEN
      -- The time of this call is over: nothing more is evaluated while everybody waits for the lock.
      results := results || CASE WHEN results #>> '{-1,message}' ~ '^(took longer|was cancelled)'
        THEN results -> -1 || jsonb_build_object('check_id', task -> 'check_id', 'required', task -> 'required',
               'source', task -> 'source', 'level', task -> 'level', 'duration_ms', 0)
        ELSE pipestate.evaluate(task, coalesce(task ->> 'path', state ->> 'path'), state ->> 'files') END;
    END IF;
  END LOOP;
  PERFORM set_config('pipestate.gate_state', (state || jsonb_build_object('pass', 'second', 'results', results,
    'late', filled AND NOT (state ->> 'filled')::boolean, 'filled', filled))::text, true);
END $$;

-- Judge the pass under the lock and leave the token: until the end of this transaction the gate is passed.
CREATE OR REPLACE PROCEDURE pipestate.pass_gate(revision text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state jsonb := pipestate.gate_state(revision, 'second');
  others jsonb := current_setting('pipestate.others')::jsonb;
BEGIN
  PERFORM set_config('statement_timeout', state ->> 'timeout_before', true);
  IF NOT (state ->> 'filled')::boolean THEN
    RAISE NOTICE 'the gate %/% was not evaluated: there is no row in %, so nothing can be lost', state ->> 'runbook', state ->> 'phase',
      (SELECT string_agg(t, ', ') FROM jsonb_array_elements_text(state -> 'tables') AS t);
  ELSIF (state ->> 'late')::boolean OR state -> 'results' <> '[]'::jsonb THEN
    state := pipestate.settle_gate(state, (state ->> 'late')::boolean);
  END IF;
  PERFORM set_config('pipestate.gate_state', '', true), set_config('pipestate.gate', revision, true);
  IF (state ->> 'enforce')::boolean AND state ->> 'force' IS NULL AND EXISTS (  -- filled by others since: rare, so all are read again
      SELECT FROM pg_class c WHERE c.relkind = 'r' AND c.relpersistence <> 't' AND c.oid >= 16384 AND NOT others ? c.oid::text
         AND c.relnamespace::regnamespace::text NOT IN ('pipestate', 'pipestate_archive') AND c.oid NOT IN (
               SELECT l.relation FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.mode = 'AccessExclusiveLock' AND l.relation IS NOT NULL)
         AND CASE WHEN c.oid IN (SELECT l.relation FROM pg_locks l WHERE l.mode = 'AccessExclusiveLock') THEN true
                  ELSE pg_relation_size(c.oid) > 0 END) THEN
    others := pipestate.others(state -> 'of_tenant') || others;
  END IF;
  -- What this gate has locked is its own; what the revision had locked before it is not.
  PERFORM set_config('pipestate.others', (others - ARRAY(SELECT l.relation::text FROM pg_locks l WHERE l.pid = pg_backend_pid()
      AND l.locktype = 'relation' AND l.mode = 'AccessExclusiveLock' AND NOT state -> 'locked' @> to_jsonb(l.relation::bigint)
    UNION ALL SELECT f::oid::text FROM jsonb_array_elements_text(state -> 'relations') AS r, pipestate.family(r::oid::regclass) AS f))::text, true);
END $$;

-- Decide and record: refuse where a blocking check did not pass or none applied, unless the gate is forced or not enforced.
CREATE OR REPLACE FUNCTION pipestate.settle_gate(state jsonb, whole boolean) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on AS $$
DECLARE
  gate text := concat(state ->> 'runbook', '/', state ->> 'phase');
  -- Values come from the data: what a terminal would obey is shown as a question mark.
  wrong text := (SELECT string_agg(format(E'\n  %s: %s (%s)', r ->> 'check_id', regexp_replace(r ->> 'message',
      '[\x01-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]', '?', 'g'), r ->> 'source'), '')
    FROM jsonb_array_elements(state -> 'results') AS r WHERE r ->> 'outcome' <> 'passed' AND r ->> 'level' = 'block');
  is_closed boolean := wrong IS NOT NULL
    OR (whole AND NOT EXISTS (SELECT FROM jsonb_array_elements(state -> 'results') AS r WHERE r ->> 'level' = 'block'));
  is_forced boolean := is_closed AND state ->> 'force' IS NOT NULL;
  is_enforced boolean := (state ->> 'enforce')::boolean;
  failing jsonb := (SELECT coalesce(jsonb_agg(r -> 'check_id'), '[]') FROM jsonb_array_elements(state -> 'results') AS r
    WHERE r ->> 'outcome' <> 'passed' AND r ->> 'level' = 'block');
BEGIN
  wrong := coalesce(wrong, E'\n  none of its checks applies here and blocks, so it stays closed: add one to its phase');
  IF is_closed AND NOT is_forced AND is_enforced THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the gate %s is closed, so this transaction is rolled back; earlier COMMITs stay:%s -- '
      'to look closer: pipestate verify %s --phase %s', gate, wrong, state ->> 'runbook', state ->> 'phase');
  END IF;
  IF is_closed AND state -> 'failing' IS NULL THEN
    RAISE WARNING 'the gate % is closed, and %', gate, CASE WHEN is_forced
      THEN concat('forced: ', state ->> 'force', '; to undo it: ' || (state ->> 'undo')) ELSE 'not enforced: enforce = warn' END;
  END IF;
  IF whole OR (is_closed AND NOT coalesce(state -> 'failing' @> failing, false)) THEN
    PERFORM pipestate.record_gate(state, CASE WHEN is_forced THEN 'force' ELSE 'gate' END, is_closed,
      CASE WHEN is_forced THEN state ->> 'force' WHEN is_closed THEN 'not enforced: enforce = warn' END);
  END IF;
  RETURN state || CASE WHEN is_closed THEN jsonb_build_object('failing', failing) ELSE '{}' END;
END $$;

-- Write the run of a gate and the result of each of its checks into the ledger.
CREATE OR REPLACE FUNCTION pipestate.record_gate(state jsonb, event text, is_closed boolean, reason text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  run bigint;
BEGIN
  INSERT INTO pipestate.run (event, actor, runbook, phase, gate, runbook_sha256, revision, passed, failed, warned, errored, skipped,
                             duration_ms, reason, database)
  SELECT event, state ->> 'actor', state ->> 'runbook', state ->> 'phase', CASE WHEN is_closed THEN 'closed' ELSE 'open' END,
         state ->> 'sha256', state ->> 'revision',
         count(*) FILTER (WHERE r.outcome = 'passed'), count(*) FILTER (WHERE r.outcome = 'failed' AND r.level = 'block'),
         count(*) FILTER (WHERE r.outcome IN ('failed', 'errored') AND r.level = 'warn'),
         count(*) FILTER (WHERE r.outcome = 'errored' AND r.level = 'block'), count(*) FILTER (WHERE r.outcome = 'skipped'),
         sum(r.duration_ms), reason, pipestate.this_database()
    FROM jsonb_to_recordset(state -> 'results') AS r (outcome text, level text, duration_ms double precision)
  RETURNING id INTO run;
  INSERT INTO pipestate.result (run_id, check_id, outcome, level, required, observed, message, duration_ms)
  SELECT run, r.check_id, r.outcome, r.level, r.required, r.observed, r.message, r.duration_ms
    FROM jsonb_to_recordset(state -> 'results') AS r (check_id text, outcome text, level text, required text, observed jsonb,
                                                      message text, duration_ms double precision);
EXCEPTION WHEN undefined_column OR undefined_table THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the ledger of this database is older than the pipestate that wrote '
    'this script (%s): bring it up to date with pipestate ledger install, then run the script again', SQLERRM);
END $$;
