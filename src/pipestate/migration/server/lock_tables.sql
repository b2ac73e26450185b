-- Lock tables until the end of the transaction without stopping the traffic: request all of them with a short timeout,
-- give everything back where one is not available, pause, request again; when patience ends, say who holds it.
CREATE OR REPLACE PROCEDURE pipestate.lock_relations(
  the_tables regclass[], the_timeout_ms integer, the_patience_s double precision, path text,
  the_mode text DEFAULT 'ACCESS EXCLUSIVE')
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  targets text := (SELECT string_agg(DISTINCT one::text, ', ' ORDER BY one::text) FROM unnest(the_tables) AS one);
  names text := (SELECT string_agg(DISTINCT pipestate.spelled(one, path), ', ') FROM unnest(the_tables) AS one);
  holders text;
  pause double precision := 0.05;
  tell_at timestamptz := clock_timestamp() + interval '2 seconds';
  give_up_at timestamptz := clock_timestamp() + make_interval(secs => the_patience_s);
BEGIN
  IF targets IS NULL THEN RETURN; END IF;
  PERFORM set_config('lock_timeout', the_timeout_ms || 'ms', true);
  BEGIN  -- where the role may set it, an autovacuum that is in the way is cancelled sooner
    PERFORM set_config('deadlock_timeout', greatest(the_timeout_ms / 4, 1) || 'ms', true);
  EXCEPTION WHEN insufficient_privilege THEN NULL;
  END;
  LOOP
    BEGIN
      EXECUTE format('LOCK TABLE %s IN %s MODE', targets, the_mode);
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      PERFORM pg_stat_clear_snapshot();
      SELECT string_agg(DISTINCT CASE
               WHEN p.gid IS NOT NULL THEN format(
                 'the prepared transaction %L of %s holds the lock, since %s: run COMMIT PREPARED or ROLLBACK PREPARED',
                 p.gid, p.owner, to_char(p.prepared, 'YYYY-MM-DD HH24:MI'))
               WHEN a.backend_type IS NULL THEN format(
                 'pid %s, a session of %s, holds the lock (its query is hidden from %s)', a.pid,
                 coalesce(a.usename, 'another role'), current_user)
               ELSE format('pid %s (%s) holds it: %s', a.pid,
                           coalesce(nullif(a.application_name, ''), a.backend_type), left(a.query, 200)) END, '; ')
        INTO holders
        FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid
        LEFT JOIN (pg_locks x JOIN pg_prepared_xacts p ON p.transaction = x.transactionid)
          ON l.pid IS NULL AND x.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
       WHERE l.granted AND l.pid IS DISTINCT FROM pg_backend_pid() AND (a.pid IS NOT NULL OR p.gid IS NOT NULL)
         AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
         AND l.relation = ANY (the_tables);
    END;
    IF clock_timestamp() >= give_up_at THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        'could not lock %s within %s s: %s; end that transaction or wait for it, then run the same again',
        names, the_patience_s, coalesce(holders, 'the session that held it has ended'));
    END IF;
    IF clock_timestamp() >= tell_at THEN
      RAISE WARNING 'still waiting for a lock on %: %', names, coalesce(holders, 'the session that held it has ended');
      tell_at := 'infinity';
    END IF;
    PERFORM pg_sleep(pause * (0.5 + random()));
    pause := least(pause * 2, 2);
  END LOOP;
END
$$;

-- The same for those of these tables that exist, and those whose names the query returns; where the condition holds.
CREATE OR REPLACE PROCEDURE pipestate.lock_tables(
  the_tables text[], the_mode text DEFAULT 'ACCESS EXCLUSIVE', the_condition text DEFAULT 'true', the_query text DEFAULT NULL,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  more text[];
  relations regclass[];
BEGIN
  IF NOT pipestate.is_true(the_condition, path) THEN RETURN; END IF;
  IF the_query IS NOT NULL THEN
    more := pipestate.value_of(format('SELECT ARRAY(%s)', the_query), path);
  END IF;
  relations := ARRAY(SELECT pipestate.resolve(t, path) FROM unnest(the_tables || more) AS t);
  CALL pipestate.lock_relations(relations, the_timeout_ms, the_patience_s, path, the_mode);
END $$;

-- The tables that a table's foreign keys point at: whoever drops those locks them, too.
CREATE OR REPLACE FUNCTION pipestate.parents(relation regclass) RETURNS regclass[]
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(SELECT confrelid::regclass FROM pg_constraint WHERE conrelid = relation AND contype = 'f')
$$;

-- Name the tables that a restore locks: those of a soft drop in that state, and those that its foreign keys point at.
CREATE OR REPLACE FUNCTION pipestate.restored_with(
  revision text, kind text, name text, schemas text[], state text) RETURNS SETOF text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT found.t FROM pipestate.soft_dropped($1, $2, $3, $4) AS entry, LATERAL (
    SELECT pipestate.hidden_relation(entry)::text
    UNION ALL SELECT substring(removed ->> 'definition', ' REFERENCES ([^(]+)[(]')
      FROM jsonb_array_elements(entry.removed) AS removed WHERE removed ->> 'kind' = 'foreign key') AS found (t)
   WHERE entry.state = $5
$$;
