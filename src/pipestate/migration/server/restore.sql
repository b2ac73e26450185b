-- Let the statements of a restore take as long as they need: a limit of the role or the database is for queries.
CREATE OR REPLACE PROCEDURE pipestate.lift_timeout()
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('pipestate.timeout_before', current_setting('statement_timeout'), false),
          set_config('statement_timeout', '0', false);
END
$$;

-- Set the limit of this session as it was before.
CREATE OR REPLACE PROCEDURE pipestate.set_timeout_back()
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('statement_timeout', current_setting('pipestate.timeout_before'), false);
END
$$;

-- The entry of a soft drop in the ledger that is not restored yet, of the first of these schemas that has one.
CREATE OR REPLACE FUNCTION pipestate.soft_dropped(the_revision text, the_kind text, the_name text, the_schemas text[])
RETURNS SETOF pipestate.soft_drop
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY
  SELECT * FROM pipestate.soft_drop
   WHERE revision = the_revision AND kind = the_kind AND name = the_name AND state <> 'restored'
     AND (schema_name = ANY (the_schemas) OR state = 'absent')
   ORDER BY state = 'absent', array_position(the_schemas, schema_name), id DESC LIMIT 1;
END
$$;

-- The table that holds the hidden columns of a soft drop, or is the soft-dropped one, under whatever name; NULL where
-- it is gone.
CREATE OR REPLACE FUNCTION pipestate.hidden_relation(the_entry pipestate.soft_drop) RETURNS regclass
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
  SELECT CASE WHEN the_entry.kind = 'table' THEN to_regclass(format('pipestate_archive._pipestate_%s_0', the_entry.id))
         WHEN the_entry.state = 'validating' THEN to_regclass(format('%I.%I', the_entry.schema_name, the_entry.table_name))
         ELSE (SELECT attrelid::regclass FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
                WHERE attname = format('_pipestate_%s_0', the_entry.id) AND attinhcount = 0 AND NOT attisdropped
                  AND relkind IN ('r', 'p')
                ORDER BY attrelid = to_regclass(format('%I.%I', the_entry.schema_name, the_entry.table_name)) DESC LIMIT 1)
         END);
END
$$;

-- Refuse a restore for which nothing is left, whose name is taken, or that would give rows written since an old value or
-- none; a reason turns the first and the last into a warning. Say how many rows are left, new and modified.
CREATE OR REPLACE PROCEDURE pipestate.require_restorable(
  the_revision text, the_kind text, the_name text, the_schemas text[], the_reason text, the_actor text,
  the_derived text[], the_changed_at text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  entry pipestate.soft_drop;
  relation regclass;
  fault text;
  left_over bigint;
  fresh bigint := 0;
  modified bigint := 0;
  stale text;
  what text;
BEGIN
  PERFORM set_config('row_security', 'off', true);  -- a policy would hide rows
  SELECT * INTO entry FROM pipestate.soft_dropped(the_revision, the_kind, the_name, the_schemas);
  IF entry.state IN ('absent', 'validating') THEN RETURN; END IF;
  IF entry.id IS NULL THEN
    SELECT string_agg(schema_name, ', ') INTO fault FROM pipestate.soft_drop
     WHERE revision = the_revision AND kind = the_kind AND name = the_name AND state = 'hidden';
    IF fault IS NOT NULL THEN
      PERFORM pipestate.refuse(format('what revision %s dropped of %s belongs to the schema %s, which is not on the '
        'search_path: set search_path, then run the same again', the_revision, the_name, fault));
    END IF;
  END IF;
  relation := pipestate.hidden_relation(entry);
  IF relation IS NOT NULL AND the_kind = 'columns' THEN
    SELECT string_agg(attrelid::regclass::text, ', ' ORDER BY attrelid::regclass::text) INTO fault
      FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid AND relkind IN ('r', 'p')
     WHERE attname = format('_pipestate_%s_0', entry.id) AND attinhcount = 0 AND NOT attisdropped
       AND to_regclass(format('%I.%I', entry.schema_name, entry.table_name)) IS DISTINCT FROM relation
    HAVING count(*) > 1;
    IF fault IS NOT NULL THEN
      PERFORM pipestate.refuse(format('%s was renamed, and several tables have its hidden columns: %s. Drop the copies, or rename '
        'the table back, then run the same again', the_name, fault));
    END IF;
    SELECT string_agg(DISTINCT reader, ', ') INTO fault FROM pipestate.family(relation) AS member
     CROSS JOIN pipestate.readers_of(member, pipestate.numbers_of(member, ARRAY[format('_pipestate_%s_0', entry.id)])) AS reader;
    IF fault IS NOT NULL THEN
      PERFORM pipestate.refuse(format('hidden columns of %s are read by %s, made since revision %s: drop it, then run the same '
        'again', relation, fault, the_revision));
    END IF;
    SELECT string_agg(attname, ', ') INTO fault FROM pg_attribute JOIN jsonb_array_elements(entry.columns) AS each
        ON attname = each ->> 'name' WHERE attrelid = relation AND NOT attisdropped;
    IF fault IS NOT NULL THEN
      PERFORM pipestate.refuse(format('%s has a column %s again, made since revision %s dropped the former one: rename or drop it, '
        'then run the same again', relation, fault, the_revision));
    END IF;
    SELECT string_agg(each ->> 'name', ', ') INTO fault FROM jsonb_array_elements(entry.columns) AS each
     WHERE NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = relation AND attname = each ->> 'hidden' AND NOT attisdropped);
    IF fault IS NOT NULL THEN
      relation := NULL;
    END IF;
  ELSIF relation IS NOT NULL AND to_regclass(format('%I.%I', entry.schema_name, entry.table_name)) IS NOT NULL THEN
    PERFORM pipestate.refuse(format('%I.%I exists again, so the one that revision %s dropped cannot be restored: rename or drop it, '
      'then run the same again', entry.schema_name, entry.table_name, the_revision));
  ELSIF relation IS NOT NULL AND to_regnamespace(quote_ident(entry.schema_name)) IS NULL THEN
    PERFORM pipestate.refuse(format('the schema %s, to which %s belongs, does not exist: create it, then run the same again',
      entry.schema_name, the_name));
  END IF;
  IF relation IS NULL THEN
    fault := CASE WHEN entry.state = 'purged' THEN '%s was purged after revision %s dropped it'
                  ELSE 'nothing of %s is left from revision %s' END;
  ELSIF the_kind = 'table' THEN
    EXECUTE format('SELECT count(*) FROM (SELECT FROM %s LIMIT 1) AS one', relation) INTO left_over;
  ELSE
    IF the_changed_at IS NOT NULL AND pipestate.numbers_of(relation, ARRAY[the_changed_at]) = '{}' THEN
      PERFORM pipestate.refuse(format('changed_at names %s, which %s does not have', the_changed_at, relation));
    END IF;
    EXECUTE format('SELECT count(*) FILTER (WHERE s.%1$I), count(*) FILTER (WHERE s.%1$I IS NULL), '
      'count(*) FILTER (WHERE s.%1$I AND %2$s) FROM %3$s AS s', format('_pipestate_%s_0', entry.id),
      coalesce(pipestate.modified_since(entry, the_changed_at), 'true'), relation) INTO left_over, fresh, modified;
    PERFORM pipestate.tell(format('rows of %s from before revision %s: %s, modified since: %s; new rows: %s', the_name, the_revision,
      left_over, CASE WHEN pipestate.modified_since(entry, the_changed_at) IS NULL THEN 'unknown' ELSE modified::text END, fresh));
  END IF;
  IF entry.held AND left_over = 0 THEN
    fault := 'no row of %s is left from before revision %s';
  END IF;
  what := CASE the_kind WHEN 'table' THEN the_name ELSE coalesce((SELECT string_agg(each ->> 'name', ', ')
      FROM jsonb_array_elements(entry.columns) AS each) || ' of ', 'the columns of ') || the_name END;
  IF fault IS NOT NULL THEN
    fault := format(fault, what, the_revision);
    IF the_reason IS NULL THEN
      PERFORM pipestate.refuse(fault || ', so this downgrade restores nothing. To go on without it: '
        'alembic -x force="reason" downgrade ...');
    END IF;
    INSERT INTO pipestate.run (event, actor, revision, reason)
    VALUES ('force', the_actor, the_revision, format('downgrade without a restore, %s: %s', fault, the_reason));
    PERFORM pipestate.warn(fault || ', and this downgrade was forced: it restores nothing of that');
    RETURN;
  END IF;
  SELECT string_agg(each ->> 'name', ', ') INTO stale FROM jsonb_array_elements(entry.columns) AS each
   WHERE the_kind = 'columns' AND NOT (each ->> 'generated')::boolean AND each ->> 'name' <> ALL (the_derived);
  IF modified > 0 AND pipestate.modified_since(entry, the_changed_at) IS NULL THEN
    fault := format('%s was reloaded since revision %s, so its modified rows cannot be recognised: all %s rows would keep the old value. Name `changed_at` in the contract', the_name, the_revision, left_over);
  ELSIF stale IS NOT NULL AND fresh + modified > 0 THEN
    fault := format('since revision %s, new rows of %s: %s, modified rows: %s. The contract has no `derived` for %s: new rows '
      'would get the default or NULL, modified rows their old value. Add `derived`', the_revision, the_name, fresh, modified, stale);
  ELSE
    RETURN;
  END IF;
  IF the_reason IS NULL THEN
    PERFORM pipestate.refuse(fault || ', or accept these values: alembic -x force="reason" downgrade ...');
  END IF;
  INSERT INTO pipestate.run (event, actor, revision, reason)
  VALUES ('force', the_actor, the_revision, format('restore of %s, new rows: %s, modified rows: %s: %s', what, fresh, modified, the_reason));
  PERFORM pipestate.warn(fault || '. This downgrade was forced');
END
$$;

-- Whether the clock of the server still tells which rows were written since a soft drop: xmin does, until a dump and
-- restore, or two thousand million transactions later.
CREATE OR REPLACE FUNCTION pipestate.written_since(the_entry pipestate.soft_drop) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
  SELECT CASE
    WHEN (SELECT kept.xmin::text::bigint FROM pipestate.soft_drop kept WHERE kept.id = the_entry.id)
         IS DISTINCT FROM the_entry.xact OR now_at - (the_entry.writers ->> 'next')::bigint > 2000000000 THEN NULL
    ELSE format('(s.xmin::text::bigint > 2 AND %1$s - (%1$s - s.xmin::text::bigint) %% 4294967296 BETWEEN %2$s AND %3$s '
                'OR s.xmin::text::bigint = ANY (%4$L::bigint[]))', now_at + 2147483647, the_entry.writers ->> 'next',
                now_at + 1073741824, ARRAY(SELECT jsonb_array_elements_text(the_entry.writers -> 'running'))) END
    FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint) AS t (now_at));
END
$$;

-- The condition, over a row s, that it was modified since a soft drop: physically, and by its own time of change where
-- there is one. That may be as early as the start of the oldest transaction that ran beside the soft drop. NULL: unknown.
CREATE OR REPLACE FUNCTION pipestate.modified_since(the_entry pipestate.soft_drop, the_changed_at text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
  SELECT CASE WHEN the_changed_at IS NULL THEN written
    WHEN written IS NULL THEN format('(s.%I)::timestamptz > %L::timestamptz', the_changed_at, the_entry.dropped_at)
    ELSE format('((s.%I)::timestamptz >= %L::timestamptz AND %s)', the_changed_at, the_entry.writers ->> 'since', written) END
    FROM pipestate.written_since(the_entry) AS written);
END
$$;

-- An expression of a contract, cast to the type of a column. A text that an enum does not have becomes NULL.
CREATE OR REPLACE FUNCTION pipestate.as_type(the_type oid, the_modifier integer, the_expression text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
  SELECT CASE WHEN (SELECT typtype = 'e' FROM pg_type WHERE oid = the_type)
    THEN format('(SELECT e.enumlabel::text::%s FROM pg_catalog.pg_enum e WHERE e.enumtypid = %s AND e.enumlabel = (%s)::text)',
                format_type(the_type, the_modifier), the_type, the_expression)
    ELSE format('(%s)::%s', the_expression, format_type(the_type, the_modifier)) END);
END
$$;

-- Prepare to fill hidden columns from what a contract derives: from now on a trigger fills each row that is written, and
-- `pipestate.fill` fills those that were written before. The trigger never fails a write: a sequence counts what it could
-- not derive.
CREATE OR REPLACE PROCEDURE pipestate.begin_restore(
  the_revision text, the_name text, the_schemas text[], the_derived jsonb, the_changed_at text, the_path text, commits boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  entry pipestate.soft_drop;
  relation regclass;
  mark text;
  own text;          -- the hidden values under their former names
  assigned text;
  filled text;
  watched text;
  found text;        -- the condition of rows that are filled
  trigger_name text;
  member regclass;
BEGIN
  PERFORM set_config('pipestate.fill', '', false);
  SELECT * INTO entry FROM pipestate.soft_dropped(the_revision, 'columns', the_name, the_schemas);
  IF entry.state IS DISTINCT FROM 'hidden' THEN RETURN; END IF;
  relation := pipestate.hidden_relation(entry);
  IF relation IS NULL THEN RETURN; END IF;
  mark := quote_ident(format('_pipestate_%s_0', entry.id));
  IF the_changed_at IS NOT NULL AND pipestate.written_since(entry) IS NULL THEN
    PERFORM pipestate.warn(format('%s was reloaded since revision %s: only %s says which rows were modified', relation,
      the_revision, the_changed_at));
  END IF;
  SELECT string_agg(format('{row}.%I AS %I', each ->> 'hidden', each ->> 'name'), ', ') INTO own
    FROM jsonb_array_elements(entry.columns) AS each;
  SELECT string_agg(format('%I = %s', name, replace(value, '{row}', 's')), ', '),
         string_agg(format('    NEW.%I := %s;', name, replace(value, '{row}', 'NEW')), E'\n')
    INTO assigned, filled
    FROM (SELECT attname AS name, format('coalesce(%s)', concat_ws(', ',
            CASE WHEN the_derived ? (each ->> 'name') THEN format('(SELECT %s FROM (SELECT {row}.*) AS s, (SELECT %s) AS a)',
              pipestate.as_type(atttypid, atttypmod, the_derived ->> (each ->> 'name')), own) END,
            format('{row}.%I', attname),
            CASE WHEN each ->> 'default' IS NOT NULL THEN format('CASE WHEN {row}.%s IS NULL THEN %s END', mark, each ->> 'default') END)) AS value
            FROM jsonb_array_elements(entry.columns) AS each
            JOIN pg_attribute ON attrelid = relation AND attname = each ->> 'hidden'
           WHERE (the_derived ? (each ->> 'name') OR each ->> 'default' IS NOT NULL) AND attgenerated = '') AS filling;
  IF assigned IS NULL THEN RETURN; END IF;
  SELECT string_agg(format('NEW.%I', each ->> 'hidden'), ', ') INTO watched
    FROM jsonb_array_elements(entry.columns) AS each WHERE NOT (each ->> 'generated')::boolean;
  found := format(CASE WHEN the_derived = '{}' THEN 's.%s IS NULL' ELSE '(s.%s IS NULL OR s.%1$s AND %s)' END, mark,
    coalesce(pipestate.modified_since(entry, the_changed_at), 'false'));
  PERFORM set_config('pipestate.fill', jsonb_build_array(jsonb_build_object('relation', relation::text,
    'head', 'UPDATE ONLY ', 'middle', format(' AS s SET %s = coalesce(s.%1$s, false), %s WHERE ', mark, assigned),
    'tail', ' AND ' || found, 'found', found))::text, false);
  IF NOT commits THEN RETURN; END IF;
  trigger_name := format('zzz_pipestate_%s', entry.id);  -- after the triggers of the application
  EXECUTE format('CREATE SEQUENCE IF NOT EXISTS pipestate_archive.%1$I; GRANT USAGE ON SEQUENCE pipestate_archive.%1$I TO PUBLIC',
    trigger_name);
  EXECUTE format($f$CREATE OR REPLACE FUNCTION pipestate_archive.%1$I() RETURNS trigger LANGUAGE plpgsql SET search_path = %2$s AS %3$L$f$,
    trigger_name, CASE WHEN the_path IN ('', '""') THEN '''''' ELSE the_path END, format($f$
BEGIN
  IF NEW.%1$s IS NULL AND %2$s THEN RETURN NEW; END IF;
  IF NEW.%1$s IS NOT TRUE OR %3$s THEN
%4$s
    NEW.%1$s := coalesce(NEW.%1$s, false);
  END IF;
  RETURN NEW;
EXCEPTION WHEN OTHERS THEN
  PERFORM nextval(%5$s::oid::regclass);
  RETURN NEW;
END$f$, mark, format('num_nonnulls(%s) > 0', watched),
      CASE WHEN the_derived = '{}' THEN 'false' WHEN the_changed_at IS NULL THEN 'true' ELSE format('NEW.%I::timestamptz >= %L::timestamptz', the_changed_at,
        entry.writers ->> 'since') END,
      filled, to_regclass(format('pipestate_archive.%I', trigger_name))::oid));
  FOR member IN SELECT one FROM pipestate.family(relation) AS one JOIN pg_class ON oid = one WHERE NOT relispartition LOOP
    EXECUTE format('DROP TRIGGER IF EXISTS %I ON %s', trigger_name, member);
    EXECUTE format('CREATE TRIGGER %1$I BEFORE INSERT OR UPDATE ON %2$s FOR EACH ROW EXECUTE FUNCTION pipestate_archive.%1$I()',
      trigger_name, member);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER %I', member, trigger_name);
  END LOOP;
END
$$;

-- Remove the trigger of a restore, with its function, and say how many rows it could not derive.
CREATE OR REPLACE FUNCTION pipestate.end_fill(the_entry pipestate.soft_drop) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  name CONSTANT text := format('pipestate_archive.zzz_pipestate_%s', the_entry.id);
  missed bigint;
BEGIN
  IF to_regclass(name) IS NULL THEN RETURN; END IF;
  EXECUTE format('SELECT last_value FROM %s WHERE is_called', name) INTO missed;
  IF missed > 0 THEN
    PERFORM pipestate.warn(format('writes to %s during this restore whose values could not be derived: %s. These rows keep their hidden values, or get the default', the_entry.name, missed));
  END IF;
  EXECUTE format('DROP SEQUENCE %1$s; DROP FUNCTION %1$s() CASCADE', name);
END
$$;

-- Prepare to bring a soft-dropped table up to date from the table that replaced it: rows s of the source that were modified
-- since, and a row for each that it does not have.
CREATE OR REPLACE PROCEDURE pipestate.begin_table_restore(
  the_revision text, the_name text, the_schemas text[], the_key text[], the_source regclass, the_where text,
  the_derived jsonb, the_changed_at text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  entry pipestate.soft_drop;
  relation regclass;
  key text[] := the_key;
  same text;
  missing text;
  work jsonb := '[]';
BEGIN
  PERFORM set_config('pipestate.fill', '', false);
  SELECT * INTO entry FROM pipestate.soft_dropped(the_revision, 'table', the_name, the_schemas);
  IF entry.state IS DISTINCT FROM 'hidden' OR the_source IS NULL THEN RETURN; END IF;
  relation := pipestate.hidden_relation(entry);
  IF relation IS NULL THEN RETURN; END IF;
  IF the_changed_at IS NOT NULL AND pipestate.written_since(entry) IS NULL THEN
    PERFORM pipestate.warn(format('%s was reloaded since revision %s: only %s says which rows were modified', the_source,
      the_revision, the_changed_at));
  END IF;
  IF key = '{}' THEN
    key := ARRAY(SELECT attname FROM pg_index CROSS JOIN unnest(indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
                 JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = k.attnum
                 WHERE indrelid = relation AND indisprimary AND n <= indnkeyatts ORDER BY n);
  END IF;
  IF key = '{}' THEN
    PERFORM pipestate.refuse(format('%s has no primary key, so rows of %s cannot be compared: name its columns in keys', the_name, the_source));
  END IF;
  same := (SELECT string_agg(format('s.%1$I = t.%1$I', name), ' AND ') FROM unnest(key) AS name);
  SELECT work || jsonb_build_object('relation', the_source::text,
           'head', format('UPDATE %s AS t SET %s FROM ONLY ', relation, string_agg(format('%1$I = coalesce(%2$s, t.%1$I)', attname,
              pipestate.as_type(atttypid, atttypmod, the_derived ->> attname)), ', ' ORDER BY attnum)),
           'middle', ' AS s WHERE ', 'tail', format(' AND (%s) AND %s AND %s', the_where, same, coalesce(pipestate.modified_since(entry, the_changed_at), 'false')))
    INTO work FROM pg_attribute WHERE attrelid = relation AND the_derived ? attname AND NOT attisdropped;
  -- A column that must have a value, and for which nothing says one: then no row can be made up.
  SELECT string_agg(attname, ', ') INTO missing FROM pg_attribute
   WHERE attrelid = relation AND attnum > 0 AND NOT attisdropped AND attnotnull AND NOT atthasdef
     AND attidentity = '' AND attname <> ALL (key) AND NOT the_derived ? attname;
  IF missing IS NOT NULL THEN
    PERFORM pipestate.warn(format('rows of %s that are newer than revision %s were not copied into %s: add its column %s to `derived`',
      the_source, the_revision, the_name, missing));
  ELSE
    SELECT work || jsonb_build_object('relation', the_source::text,
             'head', format('INSERT INTO %s (%s, %s) SELECT %s, %s FROM ONLY ', relation,
                (SELECT string_agg(quote_ident(name), ', ') FROM unnest(key) AS name),
                string_agg(quote_ident(attname), ', ' ORDER BY attnum),
                (SELECT string_agg(format('s.%I', name), ', ') FROM unnest(key) AS name),
                string_agg(pipestate.as_type(atttypid, atttypmod, the_derived ->> attname), ', ' ORDER BY attnum)),
             'middle', ' AS s WHERE ', 'tail', format(' AND (%s) AND NOT EXISTS (SELECT FROM %s t WHERE %s) ON CONFLICT DO NOTHING',
                the_where, relation, same))
      INTO work FROM pg_attribute WHERE attrelid = relation AND the_derived ? attname AND NOT attisdropped;
  END IF;
  PERFORM set_config('pipestate.fill', work::text, false);
END
$$;

-- List the parts of tables that are to be filled: 16 pages, or all of a table. One read of it says whether there are rows to fill.
CREATE OR REPLACE FUNCTION pipestate.parts_to_fill(commits boolean, path text)
RETURNS TABLE (work jsonb, member regclass, part bigint, is_first boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  parts bigint[];
BEGIN
  FOR work, member IN
    SELECT w, m FROM jsonb_array_elements(coalesce(nullif(current_setting('pipestate.fill', true), ''), '[]')::jsonb) AS w,
      pipestate.family((w ->> 'relation')::regclass) AS m JOIN pg_class c ON c.oid = m WHERE c.relkind = 'r'
  LOOP
    PERFORM set_config('row_security', 'off', true);  -- a policy would hide rows
    parts := '{}';
    IF NOT work ? 'found' THEN
      parts := ARRAY(SELECT generate_series(0, pg_relation_size(member) / current_setting('block_size')::bigint / 16));
    -- The server may use several processes for this read. Only if a row is found, another read lists the pages.
    ELSIF pipestate.value_of(format('SELECT bool_or(%s) FROM ONLY %s AS s', work ->> 'found', member), path)::boolean THEN
      parts := pipestate.value_of(format('SELECT ARRAY(SELECT DISTINCT (s.ctid::text::point)[0]::bigint / 16 FROM ONLY %s AS s WHERE %s)',
        member, work ->> 'found'), path);
    END IF;
    RETURN QUERY SELECT work, member, p.number, p.place = 1
      FROM unnest(CASE WHEN commits THEN parts ELSE parts[1:1] END) WITH ORDINALITY AS p (number, place);
  END LOOP;
END
$$;

-- Fill one part: triggers of the application must not take this for a change of their own.
CREATE OR REPLACE PROCEDURE pipestate.fill_part(
  work jsonb, member regclass, part bigint, is_first boolean, commits boolean, path text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  is_silent boolean := true;
  loud text;
  within text := CASE WHEN NOT commits THEN 'true'
    WHEN current_setting('server_version_num')::integer >= 140000
      THEN format('s.ctid >= ''(%s,0)'' AND s.ctid < ''(%s,0)''', part * 16, part * 16 + 16)
    ELSE format('s.ctid = ANY (%L::tid[])', ARRAY(SELECT format('(%s,%s)', page, line)
      FROM generate_series(part * 16, part * 16 + 15) AS page, generate_series(1, 291) AS line)) END;
BEGIN
  PERFORM set_config('row_security', 'off', true);
  BEGIN
    PERFORM set_config('session_replication_role', 'replica', true);
  EXCEPTION WHEN insufficient_privilege THEN
    is_silent := false;
    SELECT string_agg(t.tgname, ', ') INTO loud FROM pg_trigger t
     WHERE is_first AND t.tgrelid = member AND NOT t.tgisinternal AND t.tgenabled <> 'D'
       AND t.tgtype & 16 > 0 AND t.tgname NOT LIKE 'zzz\_pipestate\_%';
    IF loud IS NOT NULL THEN
      PERFORM pipestate.warn(format('triggers of %s run for every row that is filled: %s. If one sets the time '
        'of the last change, unchanged rows look modified; a superuser can restore without them', pipestate.spelled(member, path), loud));
    END IF;
  END;
  PERFORM pipestate.execute(concat(work ->> 'head', member, work ->> 'middle', within, work ->> 'tail'), path);
  IF is_silent AND NOT commits THEN
    PERFORM set_config('session_replication_role', 'origin', true);
  END IF;
END
$$;

-- Run what was prepared, each part in a transaction of its own; or at once, in this one.
CREATE OR REPLACE PROCEDURE pipestate.fill(commits boolean, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql AS $$
DECLARE
  todo record;
BEGIN
  FOR todo IN SELECT * FROM pipestate.parts_to_fill(commits, path) LOOP
    CALL pipestate.fill_part(todo.work, todo.member, todo.part, todo.is_first, commits, path);
    IF commits THEN COMMIT; END IF;
  END LOOP;
END
$$;

-- List the statements that build, before the lock, the unique indexes of a soft drop that hold no duplicates now; each is
-- run outside a transaction. What an interrupted build left is dropped first.
CREATE OR REPLACE FUNCTION pipestate.indexes_to_build(the_revision text, the_name text, the_schemas text[]) RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  entry pipestate.soft_drop;
  relation regclass;
  item jsonb;
  there regclass;
BEGIN
  SELECT * INTO entry FROM pipestate.soft_dropped(the_revision, 'columns', the_name, the_schemas);
  relation := pipestate.hidden_relation(entry);
  IF entry.state IS DISTINCT FROM 'hidden' OR relation IS NULL THEN RETURN; END IF;
  FOR item IN SELECT jsonb_array_elements(entry.removed) LOOP
    CONTINUE WHEN item ->> 'kind' <> 'unique' OR NOT (item ->> 'plain')::boolean OR (item ->> 'partitioned')::boolean
      OR item ->> 'relation' <> format('%I.%I', entry.schema_name, entry.table_name)
      OR (SELECT relkind <> 'r' FROM pg_class WHERE oid = relation);
    there := to_regclass(format('%s.%I', (SELECT relnamespace::regnamespace FROM pg_class WHERE oid = relation), item ->> 'index'));
    IF there IS NOT NULL AND (SELECT indrelid = relation AND NOT indisvalid FROM pg_index WHERE indexrelid = there) THEN
      RETURN NEXT format('DROP INDEX CONCURRENTLY %s', there);
      there := NULL;
    END IF;
    CONTINUE WHEN there IS NOT NULL OR pipestate.has_duplicates(relation,
      ARRAY(SELECT coalesce((SELECT c ->> 'hidden' FROM jsonb_array_elements(entry.columns) AS c WHERE c ->> 'name' = key), key)
              FROM jsonb_array_elements_text(item -> 'keys') AS key), (item ->> 'nulls_equal')::boolean);
    RETURN NEXT format('CREATE UNIQUE INDEX CONCURRENTLY %I ON %s%s', item ->> 'index', relation, item ->> 'hidden_definition');
  END LOOP;
END
$$;

-- Say whether rows of a table are equal in these columns: then a unique index over them cannot be built.
CREATE OR REPLACE FUNCTION pipestate.has_duplicates(the_relation regclass, the_columns text[], nulls_equal boolean) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  listed text := (SELECT string_agg(quote_ident(name), ', ') FROM unnest(the_columns) AS name);
  repeats boolean;
BEGIN
  EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE %s OR num_nulls(%s) = 0 GROUP BY %3$s HAVING count(*) > 1)', the_relation,
    CASE WHEN nulls_equal THEN 'true' ELSE 'false' END, listed) INTO repeats;
  RETURN repeats;
END
$$;

-- Give hidden columns their names again, with everything that was removed; the caller holds the lock. What must be checked
-- against every row is added NOT VALID, and validated after the lock.
CREATE OR REPLACE PROCEDURE pipestate.restore_columns(the_revision text, the_name text, the_schemas text[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  entry pipestate.soft_drop;
  target regclass;
  item record;
BEGIN
  SELECT * INTO entry FROM pipestate.soft_dropped(the_revision, 'columns', the_name, the_schemas);
  IF entry.state IN ('validating', 'absent') THEN RETURN; END IF;
  IF entry.state IS DISTINCT FROM 'hidden' THEN
    UPDATE pipestate.soft_drop SET state = 'restored', restored_at = clock_timestamp() WHERE id = entry.id;
    RETURN;
  END IF;
  target := pipestate.hidden_relation(entry);
  IF target IS NULL THEN  -- forced
    UPDATE pipestate.soft_drop SET state = 'restored', restored_at = clock_timestamp() WHERE id = entry.id;
    RETURN;
  END IF;
  IF NOT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted
                    AND mode = 'AccessExclusiveLock' AND pg_locks.relation = target) THEN
    PERFORM pipestate.refuse(format('%s is not locked, so nothing of it was restored: run the whole revision', target));
  END IF;
  PERFORM pipestate.end_fill(entry);
  EXECUTE format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I, DROP COLUMN %I', target, format('_pipestate_%s_c', entry.id),
    format('_pipestate_%s_0', entry.id));
  FOR item IN SELECT each ->> 'name' AS name, each ->> 'hidden' AS hidden FROM jsonb_array_elements(entry.columns) AS each LOOP
    EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I', target, item.hidden, item.name);
  END LOOP;
  FOR item IN SELECT each ->> 'name' AS name FROM jsonb_array_elements(entry.columns) AS each WHERE NOT (each ->> 'generated')::boolean LOOP
    EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT', target, item.name);  -- NULL, over that of a domain
  END LOOP;
  PERFORM pipestate.unhide_names(entry.renamed);
  FOR item IN SELECT each, place FROM jsonb_array_elements(entry.removed) WITH ORDINALITY AS e (each, place) ORDER BY place DESC LOOP
    PERFORM pipestate.restore_removed(entry, target, item.each, item.place);
  END LOOP;
  -- The version row follows in a later transaction: until then a rerun must find the entry.
  UPDATE pipestate.soft_drop SET state = 'validating',
         schema_name = (SELECT nspname FROM pg_class JOIN pg_namespace ns ON ns.oid = relnamespace WHERE pg_class.oid = target),
         table_name = (SELECT relname FROM pg_class WHERE oid = target) WHERE id = entry.id;
END
$$;

-- Rename indexes, statistics and sequences back, found by their hidden names; one whose name is taken keeps the hidden one.
CREATE OR REPLACE FUNCTION pipestate.unhide_names(the_renamed jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  item record;
BEGIN
  FOR item IN SELECT renamed.kind, renamed.name, renamed.hidden, found.statement
                FROM jsonb_to_recordset(the_renamed) AS renamed (kind text, name text, hidden text) CROSS JOIN LATERAL (
                  SELECT format('ALTER %s %s.%I RENAME', upper(kind), relnamespace::regnamespace, relname) FROM pg_class
                   WHERE kind IN ('index', 'sequence') AND relname = hidden
                  UNION ALL
                  SELECT format('ALTER STATISTICS %s.%I RENAME', stxnamespace::regnamespace, stxname) FROM pg_statistic_ext
                   WHERE kind = 'statistics' AND stxname = hidden
                ) AS found (statement)
  LOOP
    BEGIN
      EXECUTE format('%s TO %I', item.statement, item.name);
    EXCEPTION WHEN duplicate_table OR duplicate_object THEN
      PERFORM pipestate.warn(format('%s %s exists already, made since: the restored one is called %s', item.kind, item.name, item.hidden));
    END;
  END LOOP;
END
$$;

-- Restore one thing that was removed with columns; say whether it must be validated.
CREATE OR REPLACE FUNCTION pipestate.restore_removed(
  the_entry pipestate.soft_drop, the_relation regclass, the_item jsonb, the_place bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  was_root CONSTANT boolean := the_item ->> 'relation' = format('%I.%I', the_entry.schema_name, the_entry.table_name);
  relation regclass := CASE WHEN was_root THEN the_relation ELSE to_regclass(the_item ->> 'relation') END;
  kind CONSTANT text := the_item ->> 'kind';
  wanted CONSTANT text := the_item ->> 'name';
  later boolean := (the_item ->> 'validated')::boolean IS TRUE AND the_item ->> 'definition' NOT LIKE '%NOT VALID';
  prepared text;
BEGIN
  IF relation IS NULL THEN
    PERFORM pipestate.warn(format('%s %s was not restored: its table %s is gone', kind, wanted, the_item ->> 'relation'));
    RETURN false;
  END IF;
  BEGIN
    IF kind = 'default' THEN
      EXECUTE format('ALTER TABLE %s%s ALTER COLUMN %I %s', CASE WHEN NOT (the_item ->> 'root')::boolean THEN 'ONLY ' END, relation,
        the_item ->> 'column', coalesce('SET DEFAULT ' || (the_item ->> 'definition'), 'DROP DEFAULT'));
      RETURN false;
    ELSIF kind = 'not null' AND wanted IS NULL THEN
      EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I CHECK (%I IS NOT NULL) NOT VALID', relation,
        format('_pipestate_%s_n%s', the_entry.id, the_place), the_item ->> 'column');
      RETURN true;
    ELSIF kind = 'trigger' THEN
      EXECUTE the_item ->> 'definition';
      IF the_item ->> 'enabled' <> 'O' THEN
        EXECUTE format('ALTER TABLE %s %s TRIGGER %I', relation,
          CASE the_item ->> 'enabled' WHEN 'D' THEN 'DISABLE' WHEN 'R' THEN 'ENABLE REPLICA' ELSE 'ENABLE ALWAYS' END, wanted);
      END IF;
    ELSIF kind IN ('check', 'foreign key', 'not null') THEN
      later := later AND NOT (kind = 'foreign key' AND (SELECT relkind = 'p' FROM pg_class WHERE oid = relation));
      EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s%s', relation, wanted, the_item ->> 'definition',
        CASE WHEN later THEN ' NOT VALID' END);
    ELSE
      prepared := (SELECT quote_ident(relname) FROM pg_index JOIN pg_class ON oid = indexrelid
                    WHERE indrelid = relation AND relname = the_item ->> 'index' AND indisvalid AND indisunique);
      IF NOT (the_item ->> 'constraint')::boolean THEN
        IF prepared IS NULL THEN
          EXECUTE the_item ->> 'definition';
        END IF;
      ELSIF prepared IS NULL THEN
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I %s', relation, wanted, the_item ->> 'definition');
      ELSE
        EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I UNIQUE USING INDEX %s %s', relation, wanted, prepared, the_item ->> 'deferrable');
      END IF;
      later := false;
      PERFORM pipestate.rename_children(relation, the_item);
      IF (the_item ->> 'clustered')::boolean THEN
        EXECUTE format('ALTER TABLE %s CLUSTER ON %I', relation, the_item ->> 'index');
      END IF;
    END IF;
  EXCEPTION
    WHEN unique_violation OR exclusion_violation OR foreign_key_violation OR check_violation THEN
      PERFORM pipestate.warn(format('%s %s of %s was not restored: rows written since break it. It was: %s', kind, wanted, relation,
        the_item ->> 'definition'));
      RETURN false;
    WHEN duplicate_object OR duplicate_table THEN
      PERFORM pipestate.warn(format('%s %s of %s was not restored: another one of that name was made since. It was: %s', kind, wanted,
        relation, the_item ->> 'definition'));
      RETURN false;
    WHEN undefined_column OR undefined_table OR undefined_object OR undefined_function THEN
      PERFORM pipestate.refuse(format('%s %s of %s cannot be restored: %s. It was: %s. Rename back what was renamed since, then run the '
        'same again', kind, coalesce(wanted, the_item ->> 'column'), relation, SQLERRM, the_item ->> 'definition'));
  END;
  IF the_item ->> 'comment' IS NOT NULL THEN
    EXECUTE CASE WHEN kind = 'trigger' THEN format('COMMENT ON TRIGGER %I ON %s IS %L', wanted, relation, the_item ->> 'comment')
      WHEN kind = 'unique' AND NOT (the_item ->> 'constraint')::boolean
        THEN format('COMMENT ON INDEX %s.%I IS %L', (SELECT relnamespace::regnamespace FROM pg_class WHERE oid = relation), wanted, the_item ->> 'comment')
      ELSE format('COMMENT ON CONSTRAINT %I ON %s IS %L', wanted, relation, the_item ->> 'comment') END;
  END IF;
  RETURN later;
END
$$;

-- Give the indexes of partitions, which the server has just named itself, their former names.
CREATE OR REPLACE FUNCTION pipestate.rename_children(the_relation regclass, the_item jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  child record;
BEGIN
  FOR child IN
    SELECT k.oid::regclass AS index, each ->> 'name' AS name
      FROM jsonb_array_elements(the_item -> 'children') AS each
      JOIN pg_index x ON x.indrelid = to_regclass(each ->> 'relation') JOIN pg_class k ON k.oid = x.indexrelid
     WHERE k.relname <> each ->> 'name' AND k.oid IN (SELECT relid FROM pg_partition_tree((
             SELECT i.oid FROM pg_index JOIN pg_class i ON i.oid = indexrelid
              WHERE indrelid = the_relation AND i.relname = the_item ->> 'index')))
  LOOP
    EXECUTE format('ALTER INDEX %s RENAME TO %I', child.index, child.name);
  END LOOP;
END
$$;

-- Move soft-dropped tables back, with their names, partitions, indexes, sequences and foreign keys.
CREATE OR REPLACE PROCEDURE pipestate.restore_table(the_revision text, the_name text, the_schemas text[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  entry pipestate.soft_drop;
  relation regclass;
  item record;
BEGIN
  SELECT * INTO entry FROM pipestate.soft_dropped(the_revision, 'table', the_name, the_schemas);
  IF entry.id IS NULL OR entry.state IN ('validating', 'absent') THEN RETURN; END IF;
  relation := pipestate.hidden_relation(entry);
  IF entry.state <> 'hidden' OR relation IS NULL THEN
    UPDATE pipestate.soft_drop SET state = 'restored', restored_at = clock_timestamp() WHERE id = entry.id;
    RETURN;
  END IF;
  FOR item IN SELECT each ->> 'name' AS name, each ->> 'hidden' AS hidden, each ->> 'schema' AS schema
                FROM jsonb_array_elements(entry.renamed) AS each WHERE each ->> 'kind' = 'table'
  LOOP
    CONTINUE WHEN to_regclass(format('pipestate_archive.%I', item.hidden)) IS NULL;
    EXECUTE format('ALTER TABLE pipestate_archive.%I SET SCHEMA %s', item.hidden, item.schema);
    EXECUTE format('ALTER TABLE %s.%I RENAME TO %I', item.schema, item.hidden, item.name);
  END LOOP;
  PERFORM pipestate.unhide_names(entry.renamed);
  FOR item IN SELECT each, place FROM jsonb_array_elements(entry.removed) WITH ORDINALITY AS e (each, place) ORDER BY place DESC LOOP
    PERFORM pipestate.restore_removed(entry, relation, item.each, item.place);
  END LOOP;
  UPDATE pipestate.soft_drop SET state = 'validating' WHERE id = entry.id;
END
$$;

-- Validate what a restore added NOT VALID, while writers go on. What rows written since break stays as it is, and is said.
CREATE OR REPLACE PROCEDURE pipestate.validate_restored(the_revision text, the_kind text, the_name text, the_schemas text[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on AS $$
DECLARE
  entry pipestate.soft_drop;
  item record;
  relation regclass;
BEGIN
  SELECT * INTO entry FROM pipestate.soft_dropped(the_revision, the_kind, the_name, the_schemas);
  IF entry.state IS DISTINCT FROM 'validating' THEN RETURN; END IF;
  relation := to_regclass(format('%I.%I', entry.schema_name, entry.table_name));
  FOR item IN
    SELECT conrelid::regclass AS relation, conname, contype, conname LIKE '\_pipestate\_%' AS is_ours
      FROM pg_constraint WHERE conrelid IN (SELECT pipestate.family(relation)) AND NOT convalidated AND coninhcount = 0
       AND (conname LIKE format('\_pipestate\_%s\_n%%', entry.id) OR EXISTS (
             SELECT FROM jsonb_array_elements(entry.removed) AS each WHERE each ->> 'name' = conname
                AND (each ->> 'validated')::boolean AND each ->> 'definition' NOT LIKE '%NOT VALID'))
  LOOP
    BEGIN
      EXECUTE format('ALTER TABLE %s VALIDATE CONSTRAINT %I', item.relation, item.conname);
    EXCEPTION WHEN integrity_constraint_violation THEN
      IF NOT item.is_ours THEN
        PERFORM pipestate.warn(format('%s of %s stays NOT VALID: rows written since break it. Fix those rows, then ALTER TABLE %2$s '
          'VALIDATE CONSTRAINT %1$I', item.conname, item.relation));
      END IF;
    END;
  END LOOP;
END
$$;

-- End a restore: NOT NULL over its validated CHECK, and the entry in the ledger. The caller holds the lock.
CREATE OR REPLACE PROCEDURE pipestate.end_restore(the_revision text, the_kind text, the_name text, the_schemas text[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on AS $$
DECLARE
  entry pipestate.soft_drop;
  item record;
  relation regclass;
BEGIN
  SELECT * INTO entry FROM pipestate.soft_dropped(the_revision, the_kind, the_name, the_schemas);
  IF entry.state IS DISTINCT FROM 'validating' THEN
    IF entry.state = 'hidden' THEN
      PERFORM pipestate.refuse(format('%s is not restored: see what failed above, then run the same again', the_name));
    ELSIF entry.state = 'absent' THEN
      UPDATE pipestate.soft_drop SET state = 'restored', restored_at = clock_timestamp() WHERE id = entry.id;
    END IF;
    RETURN;
  END IF;
  relation := to_regclass(format('%I.%I', entry.schema_name, entry.table_name));
  FOR item IN
    SELECT conrelid::regclass AS relation, conname, convalidated, attname FROM pg_constraint
      JOIN pg_attribute ON attrelid = conrelid AND attnum = conkey[1]
     WHERE conrelid IN (SELECT pipestate.family(relation)) AND coninhcount = 0 AND conname LIKE format('\_pipestate\_%s\_n%%', entry.id)
  LOOP
    IF item.convalidated THEN
      EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET NOT NULL', item.relation, item.attname);
    ELSE
      PERFORM pipestate.warn(format('%s.%s stays nullable: rows written since have no value for it', item.relation, item.attname));
    END IF;
    EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', item.relation, item.conname);
  END LOOP;
  UPDATE pipestate.soft_drop SET state = 'restored', restored_at = clock_timestamp() WHERE id = entry.id;
END
$$;

-- The schemas of a search_path that exist, in its order.
CREATE OR REPLACE FUNCTION pipestate.schemas_of(path text) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('search_path', path, true);
  RETURN pg_catalog.current_schemas(false);
END $$;

-- Restore the columns that a downgrade has hidden; nothing happens where there are none.
CREATE OR REPLACE PROCEDURE pipestate.bring_back_columns(
  the_table text, the_revision text, the_timeout_ms integer, the_patience_s double precision, path text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  schemas CONSTANT text[] := pipestate.schemas_of(path);
  tables CONSTANT regclass[] := ARRAY(SELECT to_regclass(t) FROM pipestate.restored_with(the_revision, 'columns', the_table, schemas, 'hidden') AS t);
  entry pipestate.soft_drop;
  again text;
  name text;
BEGIN
  SELECT * INTO entry FROM pipestate.soft_dropped(the_revision, 'columns', the_table, schemas);
  IF entry.id IS NULL THEN RETURN; END IF;
  CALL pipestate.lock_relations(tables, the_timeout_ms, the_patience_s, path);
  SELECT string_agg(a.attname, ', ') INTO again FROM pg_attribute a
    JOIN jsonb_array_elements(entry.columns) AS each ON a.attname = each ->> 'name'
   WHERE a.attrelid = pipestate.hidden_relation(entry) AND NOT a.attisdropped;
  IF again IS NOT NULL THEN
    PERFORM pipestate.refuse(format('%s has %s again, made since the downgrade of revision %s hid the former column: '
      'rename or drop the new one, then run the same again', the_table, again, the_revision));
  END IF;
  -- Rows that were written since get the defaults, which hidden columns do not have.
  CALL pipestate.begin_restore(the_revision, the_table, schemas, '{}', NULL, '', false);
  CALL pipestate.fill(false, path);
  CALL pipestate.restore_columns(the_revision, the_table, schemas);
  CALL pipestate.validate_restored(the_revision, 'columns', the_table, schemas);
  CALL pipestate.end_restore(the_revision, 'columns', the_table, schemas);
  IF entry.state = 'hidden' THEN
    FOR name IN SELECT each ->> 'name' FROM jsonb_array_elements(entry.columns) AS each LOOP
      CALL pipestate.remember('column', concat(the_table, '.', name), the_revision);
    END LOOP;
  END IF;
END $$;

-- Drop a soft-dropped object for good. Archived tables that point at it, or inherit from it, stay.
CREATE OR REPLACE PROCEDURE pipestate.purge(the_id bigint)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  entry pipestate.soft_drop;
  relation regclass;
  going text;
  detail text;
BEGIN
  SELECT * INTO entry FROM pipestate.soft_drop WHERE id = the_id;
  IF entry.state IS DISTINCT FROM 'hidden' THEN RETURN; END IF;
  relation := pipestate.hidden_relation(entry);
  IF relation IS NOT NULL AND entry.kind = 'columns' THEN
    PERFORM pipestate.end_fill(entry);
    SELECT string_agg(format('DROP COLUMN %I', attname), ', ' ORDER BY attnum) INTO going FROM pg_attribute
     WHERE attrelid = relation AND NOT attisdropped
       AND (attname = format('_pipestate_%s_0', the_id)
            OR attname IN (SELECT each ->> 'hidden' FROM jsonb_array_elements(entry.columns) AS each));
    EXECUTE format('ALTER TABLE %s %s', relation, going);
  ELSIF relation IS NOT NULL THEN
    FOR going IN
      SELECT format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname) FROM pg_constraint
       WHERE contype = 'f' AND confrelid = relation AND conrelid <> relation AND conparentid = 0
         AND (SELECT relnamespace FROM pg_class WHERE oid = conrelid) = 'pipestate_archive'::regnamespace
      UNION ALL
      SELECT format('ALTER TABLE %s NO INHERIT %s', inhrelid::regclass, relation) FROM pg_inherits
        JOIN pg_class ON oid = inhrelid WHERE inhparent = relation AND NOT relispartition
    LOOP
      EXECUTE going;
    END LOOP;
    EXECUTE format('DROP TABLE %s', relation);
  END IF;
  UPDATE pipestate.soft_drop SET state = 'purged', purged_at = clock_timestamp() WHERE id = the_id;
EXCEPTION WHEN dependent_objects_still_exist THEN
  GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
  PERFORM pipestate.refuse(format('%s cannot be purged: %s. Drop that first, then run the same again', entry.name,
    replace(detail, E'\n', '; ')));
END
$$;
