-- The guard in the server: two event triggers, in a schema that only a superuser owns. `pipestate guard install` creates it.
-- It refuses to drop a table or column outside a passed gate or a guarded run, unless the transaction gives a reason.
-- TRUNCATE, DELETE and DROP DATABASE fire no such trigger.

-- Before each DROP or ALTER, note the tables that this transaction has created: dropping them loses nothing that anybody saw.
-- The row of a system column is written with its table and never again, so its xmin is the transaction that made the table.
CREATE OR REPLACE FUNCTION pipestate_guard.note_created() RETURNS event_trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  own bigint := pg_current_xact_id_if_assigned()::text::bigint;  -- NULL: it has created nothing; CONCURRENTLY needs that
BEGIN
  IF tg_tag !~ '^(DROP|ALTER)' THEN RETURN; END IF;
  PERFORM set_config('pipestate_guard.created', coalesce(string_agg(a.attrelid::text, ' '), ''), true)
     FROM pg_attribute a, LATERAL (SELECT (a.xmin::text::bigint - own % 4294967296 + 4294967296) % 4294967296 AS later) AS x
    WHERE a.attnum = -6 AND CASE WHEN age(a.xmin) <= 0 AND x.later < 2147483648  -- of this transaction, or of a later one
      THEN pg_xact_status((own + x.later)::text::xid8) = 'in progress' END;  -- of this one: rows of others are not seen yet
END $$;

-- Refuse a drop that nobody answers for; record one that has a reason.
CREATE OR REPLACE FUNCTION pipestate_guard.refuse_drops() RETURNS event_trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  reason text := nullif(btrim(current_setting('pipestate.reason', true)), '');
  created text[] := string_to_array(coalesce(current_setting('pipestate_guard.created', true), ''), ' ');
  settings jsonb := '{}';
  dropped jsonb;
  named text;
  stack text;
  ledger oid := (SELECT c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE n.nspname = 'pipestate' AND c.relname = 'run' AND c.relkind = 'r');
BEGIN
  BEGIN  -- exempt roles and schemas, and the owner of the ledger, are kept in the trigger's comment: a dump carries them
    SELECT coalesce(obj_description(t.oid, 'pg_event_trigger')::jsonb, '{}') INTO settings
      FROM pg_event_trigger t WHERE t.evtname = 'pipestate_guard';
  EXCEPTION WHEN invalid_text_representation THEN settings := '{}';
  END;
  SELECT jsonb_agg(jsonb_build_object('kind', CASE d.object_type WHEN 'table' THEN 'table' ELSE 'column' END, 'name', d.name)
           ORDER BY d.place),
         string_agg(concat(CASE d.object_type WHEN 'table' THEN 'the table ' ELSE 'the column ' END, d.name), ', ' ORDER BY d.place)
           FILTER (WHERE d.place <= 3) || CASE WHEN count(*) > 3 THEN format(' and %s more', count(*) - 3) ELSE '' END
    INTO dropped, named
    FROM (SELECT o.object_type, regexp_replace(o.object_identity, '^public\.', '') AS name, row_number() OVER () AS place
            FROM pg_event_trigger_dropped_objects() AS o
           WHERE o.object_type IN ('table', 'table column') AND NOT o.is_temporary AND o.objid::text <> ALL (created)
             AND NOT coalesce(settings -> 'schemas', '[]') ? coalesce(o.schema_name, '')) AS d;
  IF dropped IS NULL OR coalesce(settings -> 'roles', '[]') ?| ARRAY[current_user::text, session_user::text] THEN RETURN; END IF;
  -- A guarded run, a purge and a passed gate hold an advisory lock of pipestate. A setting could be written by anybody.
  IF EXISTS (SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.pid = pg_backend_pid() AND l.granted
               AND l.classid = 1885958245 AND l.objsubid = 2
               AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())) THEN
    RETURN;
  END IF;
  GET DIAGNOSTICS stack = PG_CONTEXT;  -- procedures of the ledger that drop only what they have checked themselves
  IF stack ~ ('(^|\n)PL/pgSQL function pipestate\.(drop_columns|drop_table|restore_columns|restore_table|end_restore|purge'
              '|soft_drop_columns|soft_drop_tables|drop_columns_for_good|drop_tables_for_good)\(') THEN
    RETURN;
  END IF;
  IF reason IS NULL OR EXISTS (SELECT FROM pg_db_role_setting s, unnest(s.setconfig) AS c WHERE c = 'pipestate.reason=' || reason) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('%s loses %s, and no gate was passed, so it was refused. Put it behind a '
      'gate (pipestate revision --contract), or give a reason in the same transaction: SET LOCAL pipestate.reason = ''ticket 4711''',
      tg_tag, named);
  END IF;
  IF ledger IS NULL OR ledger NOT IN (
       SELECT r.oid FROM pg_roles r WHERE r.rolsuper OR r.rolname IN (current_user, settings ->> 'ledger')) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('%s loses %s, and its reason cannot be recorded: the ledger is missing, or another role owns it. Run pipestate ledger install, then pipestate guard install', tg_tag, named);
  END IF;
  BEGIN
    INSERT INTO pipestate.run (event, actor, reason, dropped, database)
    VALUES ('drop', session_user, reason, dropped, pipestate.this_database());
  EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('%s loses %s, and %s may not record its reason. As the owner of the '
      'ledger: CALL pipestate.grant_recording(%3$L)', tg_tag, named, current_user);
  END;
  -- One reason is for one transaction, also where it was SET for the session.
  PERFORM set_config('pipestate.reason', '', false), set_config('pipestate.reason', reason, true);
END $$;
