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

-- Running upgrade 0001 -> 0002

CREATE OR REPLACE FUNCTION pg_temp.pipestate_catalogue(schemas text[] DEFAULT NULL) RETURNS TABLE (oid bigint, kind text, schema text, name text,
  filenode bigint, rows float8, bytes bigint, parent bigint, extension bigint, rowtype bigint, columns text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
SELECT c.oid::bigint AS oid,
       c.relkind::text AS kind,
       n.nspname::text AS schema,
       c.relname::text AS name,
       c.relfilenode::bigint AS filenode,
       CASE WHEN c.reltuples > 0 THEN c.reltuples
            ELSE coalesce(nullif(pg_stat_get_live_tuples(c.oid), 0), -1) END::float8 AS rows,
       CASE WHEN c.relkind <> 'r' THEN 0
            WHEN l.relation IS NOT NULL THEN -1
            ELSE coalesce(pg_relation_size(c.oid), 0) END AS bytes,
       coalesce(i.inhparent, 0)::bigint AS parent,
       coalesce(e.refobjid, 0)::bigint AS extension,
       c.reltype::bigint AS rowtype,
       coalesce(a.columns, '') AS columns
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_inherits i ON i.inhrelid = c.oid AND c.relispartition
LEFT JOIN pg_depend e
  ON e.refclassid = 'pg_extension'::regclass AND e.deptype = 'e'
  AND e.classid = 'pg_class'::regclass AND e.objid = c.oid
LEFT JOIN (
  SELECT DISTINCT relation FROM pg_locks
  WHERE locktype = 'relation' AND mode = 'AccessExclusiveLock' AND pid <> pg_backend_pid()
    AND database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
) l ON l.relation = c.oid
CROSS JOIN LATERAL (
  SELECT string_agg(attnum || ' ' || atttypid || ' ' || atttypmod || ' ' || atthasmissing::int || ' '
           || translate(attname, E'\n', ' '), E'\n' ORDER BY attnum) AS columns
  FROM pg_attribute
  WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
) a
WHERE c.relkind IN ('r', 'p', 'c') AND c.relpersistence <> 't'
  AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
  AND (schemas IS NULL OR n.nspname::text = ANY (schemas) OR c.oid IN (
    SELECT h.inhrelid FROM pg_inherits h JOIN pg_class p ON p.oid = h.inhparent
    JOIN pg_namespace s ON s.oid = p.relnamespace WHERE s.nspname::text = ANY (schemas)))
UNION ALL
SELECT t.oid::bigint, 'd', n.nspname::text, t.typname::text, t.typtypmod, 0, 0, t.typbasetype::bigint, 0, 0, ''
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
WHERE t.typtype = 'd' AND n.nspname <> 'information_schema'
UNION ALL
SELECT x.oid::bigint, 'x', '', x.extname::text, 0, 0, 0, 0, 0, 0, ''
FROM pg_extension x
$$;

CREATE OR REPLACE FUNCTION pg_temp.pipestate_element_type(type oid) RETURNS oid
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((SELECT t.typelem FROM pg_type t WHERE t.oid = type AND t.typcategory = 'A' AND t.typelem <> 0), type)
$$;

CREATE OR REPLACE FUNCTION pg_temp.pipestate_loses(old regtype, old_modifier integer, new regtype, new_modifier integer, by_hand boolean)
RETURNS boolean LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  WITH kept AS (
    SELECT CASE old_modifier WHEN -1 THEN 6 ELSE old_modifier END AS old_digits,
           CASE new_modifier WHEN -1 THEN 6 ELSE new_modifier END AS new_digits,
           CASE WHEN old = 'money'::regtype THEN 2 WHEN old = 'numeric'::regtype AND old_modifier <> -1
                THEN (((old_modifier - 4) & 2047) # 1024) - 1024 END AS old_scale,
           CASE WHEN new_modifier <> -1 THEN (((new_modifier - 4) & 2047) # 1024) - 1024 END AS new_scale
  )
  SELECT CASE
    WHEN new IN ('text', 'varchar', 'bpchar') THEN
      by_hand AND old IN ('text', 'varchar', 'bpchar') AND new_modifier <> -1
        AND (old = 'text'::regtype OR old_modifier = -1 OR new_modifier < old_modifier)
    WHEN old IN ('text', 'varchar', 'bpchar') THEN
      new IN ('real', 'float8', 'date', 'time', 'timetz', 'money', '"char"', 'name')
        OR (new IN ('numeric', 'timestamp', 'timestamptz', 'interval') AND new_modifier NOT IN (-1, 6))
    WHEN old IN ('bit', 'varbit') AND new IN ('bit', 'varbit') THEN
      by_hand AND new_modifier <> -1 AND (old_modifier = -1 OR new_modifier < old_modifier)
    WHEN old IN ('numeric', 'real', 'float8', 'money') THEN
      CASE WHEN new IN ('smallint', 'integer', 'bigint') THEN old_scale IS NULL OR old_scale > 0
           WHEN new = 'money'::regtype THEN old_scale IS NULL OR old_scale > 2
           WHEN new = 'numeric'::regtype THEN new_modifier <> -1 AND (old_scale IS NULL OR new_scale < old_scale)
           ELSE new IN ('real', 'float8') AND old <> 'real'::regtype AND old <> new END
    WHEN old IN ('smallint', 'integer', 'bigint') THEN
      (new = 'numeric'::regtype AND new_scale < 0) OR (new = 'real'::regtype AND old <> 'smallint'::regtype)
        OR (new = 'float8'::regtype AND old = 'bigint'::regtype)
    WHEN old = 'inet'::regtype AND new = 'cidr'::regtype THEN true
    WHEN old IN ('timestamp', 'timestamptz') THEN
      new IN ('date', 'time', 'timetz') OR (new IN ('timestamp', 'timestamptz') AND new_digits < old_digits)
    WHEN old IN ('time', 'timetz') THEN
      (old = 'timetz'::regtype AND new = 'time'::regtype) OR (new IN ('time', 'timetz') AND new_digits < old_digits)
    WHEN old = 'interval'::regtype THEN
      new = 'time'::regtype OR (new = 'interval'::regtype AND new_modifier NOT IN (-1, old_modifier))
    ELSE false END
  FROM kept
$$;

CREATE OR REPLACE FUNCTION pg_temp.pipestate_listed_columns(columns text)
RETURNS TABLE (number integer, type bigint, modifier integer, filled boolean, name text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT m[1]::integer, m[2]::bigint, m[3]::integer, m[4] = '1', m[5]
    FROM regexp_split_to_table(nullif(columns, ''), E'\n') AS line, regexp_match(line, '^(\d+) (\d+) (-?\d+) (\d) (.*)$') AS m
$$;

CREATE OR REPLACE FUNCTION pg_temp.pipestate_base_type(type bigint, modifier integer, domains jsonb, OUT base oid, OUT modified integer) RETURNS record
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  WHILE domains ? type::text LOOP
    modifier := (domains -> type::text ->> 1)::integer;
    type := (domains -> type::text ->> 0)::bigint;
  END LOOP;
  base := pg_temp.pipestate_element_type(type::oid);
  modified := modifier;
END $$;

CREATE OR REPLACE FUNCTION pg_temp.pipestate_leaves_before(root bigint) RETURNS TABLE (oid bigint, rows float8)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY WITH RECURSIVE family (oid) AS (
    SELECT root UNION SELECT b.oid FROM pg_temp.pipestate_before b JOIN family f ON b.parent = f.oid AND b.kind IN ('r', 'p')
  )
  SELECT b.oid, b.rows FROM pg_temp.pipestate_before b JOIN family f ON f.oid = b.oid WHERE b.kind = 'r';
END $$;

CREATE OR REPLACE FUNCTION pg_temp.pipestate_held_before(root bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN EXISTS (SELECT FROM pg_temp.pipestate_leaves_before(root) l JOIN pg_temp.pipestate_memory m ON m.oid = l.oid AND m.what = 'held');
END $$;

CREATE OR REPLACE FUNCTION pg_temp.pipestate_kept_in(type oid) RETURNS bigint[]
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE holder (held, relation) AS (
    SELECT type, 0::oid
    UNION
    SELECT coalesce(c.reltype, d.objid), coalesce(c.oid, 0::oid)
      FROM holder h JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = h.held
      LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
     WHERE c.oid IS NOT NULL OR d.classid = 'pg_type'::regclass
  )
  SELECT array_agg(h.relation::bigint) FROM holder h WHERE h.relation <> 0::oid
$$;

CREATE OR REPLACE FUNCTION pg_temp.pipestate_count_rows(schema text, name text, condition text, most bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found bigint;
BEGIN
  EXECUTE format('SELECT count(*) FROM (SELECT FROM %I.%I t WHERE %s LIMIT %L) c', schema, name, condition, most)
    INTO found;
  RETURN found;
END $$;

CREATE OR REPLACE FUNCTION pg_temp.pipestate_written_tables() RETURNS TABLE (oid bigint, has_deleted boolean, root text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT c.oid::bigint, pg_stat_get_xact_tuples_deleted(c.oid) > 0 OR current_setting('track_counts') = 'off',
         (SELECT format('%I.%I', s.nspname, r.relname) FROM pg_class r
            JOIN pg_namespace s ON s.oid = r.relnamespace WHERE r.oid = coalesce(pg_partition_root(c.oid), c.oid))
    FROM (SELECT DISTINCT relation FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation'
             AND mode = 'RowExclusiveLock' AND relation >= 16384) l
    JOIN pg_class c ON c.oid = l.relation AND c.relkind = 'r' AND c.relpersistence <> 't'
    JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname NOT IN ('pipestate', 'pipestate_archive')
   WHERE (pg_stat_get_xact_tuples_deleted(c.oid) > 0 OR pg_stat_get_xact_tuples_inserted(c.oid) > 0
          OR current_setting('track_counts') = 'off')
     AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                    AND a.attname <> 'version_num')
$$;

CREATE OR REPLACE FUNCTION pg_temp.pipestate_emptied() RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  written record;
  has_rows boolean;
  found bigint[] := '{}';
BEGIN
  FOR written IN SELECT * FROM pg_temp.pipestate_written_tables() w WHERE w.has_deleted LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', written.root) INTO has_rows;
    IF NOT has_rows THEN
      found := found || written.oid;
    END IF;
  END LOOP;
  RETURN found;
END $$;

CREATE OR REPLACE FUNCTION pg_temp.pipestate_count_values(schema text, name text, columns text[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found bigint[];
BEGIN
  EXECUTE (SELECT format('SELECT ARRAY[count(*)%s] FROM %I.%I t', string_agg(format(
      ', count(t.%1$I), coalesce((min(t.%1$I::text COLLATE "C") <> max(t.%1$I::text COLLATE "C"))::integer, 0)', u.name), '' ORDER BY u.place),
      schema, $2) FROM unnest(columns) WITH ORDINALITY AS u (name, place)) INTO found;
  RETURN found;
END $$;

CREATE OR REPLACE PROCEDURE pg_temp.pipestate_note_copies(names text[], creates boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  created bigint[] := ARRAY(SELECT l.relation::bigint FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation'
    AND l.mode = 'AccessExclusiveLock' AND NOT EXISTS (SELECT FROM pg_temp.pipestate_before b WHERE b.oid = l.relation::bigint));
  old record;
  counted bigint[];
BEGIN
  IF created = '{}' AND NOT creates THEN RETURN; END IF;
  FOR old IN SELECT c.oid::bigint AS oid, n.nspname, c.relname,
      ARRAY(SELECT a.attnum::integer FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                AND a.attgenerated = '' ORDER BY 1) AS numbers,
      ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                AND a.attgenerated = '' ORDER BY a.attnum) AS names
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    JOIN pg_temp.pipestate_before b ON b.oid = c.oid::bigint AND b.kind IN ('r', 'p') WHERE c.relname = ANY (names) LOOP
    DELETE FROM pg_temp.pipestate_memory m WHERE m.what = concat('copy of ', old.oid) OR m.oid = old.oid AND m.what IN ('values', 'differ');
    counted := pg_temp.pipestate_count_values(old.nspname, old.relname, old.names);
    INSERT INTO pg_temp.pipestate_memory
    SELECT concat('copy of ', old.oid), u.oid, 0, counted[1] FROM unnest(CASE WHEN creates THEN '{0}' ELSE created END) AS u (oid)
    UNION ALL
    SELECT w.what, old.oid, u.number, counted[2 * u.place + w.at]
      FROM unnest(old.numbers) WITH ORDINALITY AS u (number, place) CROSS JOIN (VALUES ('values', 0), ('differ', 1)) AS w (what, at);
  END LOOP;
END $$;

CREATE OR REPLACE PROCEDURE pg_temp.pipestate_note_columns(named text[], dropped text[], writes boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  old record;
  known text;
  had bigint;
  kept bigint;
  same bigint;
  is_copy boolean;
BEGIN
  FOR old IN WITH RECURSIVE family (oid) AS (
      SELECT c.oid FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relname = ANY (named)
      UNION SELECT i.inhrelid FROM pg_inherits i JOIN family f ON f.oid = i.inhparent)
    SELECT c.oid::bigint AS oid, format('%I.%I', s.nspname, c.relname) AS relation, d.attnum::integer AS number, d.attname,
           a.attnum::integer AS other, a.attname AS candidate, o.number IS NULL AS is_new,
           o.number IS NOT NULL AND NOT EXISTS (
             SELECT FROM pg_temp.pipestate_memory m WHERE m.what = 'created' AND (m.oid, m.number) = (b.oid, o.number)) AS is_old,
           CASE WHEN c.relkind = 'r' AND current_setting('track_counts') = 'on'
             THEN pg_stat_get_xact_tuples_updated(c.oid) + pg_stat_get_xact_tuples_inserted(c.oid) END AS written,
           row_number() OVER (PARTITION BY c.oid, d.attnum ORDER BY a.attnum) AS place
      FROM family f JOIN pg_class c ON c.oid = f.oid AND NOT c.relispartition
      JOIN pg_namespace s ON s.oid = c.relnamespace
      JOIN pg_temp.pipestate_before b ON b.oid = c.oid::bigint
      JOIN pg_attribute d ON d.attrelid = c.oid AND d.attnum > 0 AND d.attname = ANY (dropped)
        AND d.attnum IN (SELECT l.number FROM pg_temp.pipestate_listed_columns(b.columns) l)
      LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attnum <> d.attnum AND NOT a.attisdropped AND a.attgenerated = ''
      LEFT JOIN LATERAL (SELECT l.number FROM pg_temp.pipestate_listed_columns(b.columns) l WHERE l.number = a.attnum) o ON true
     WHERE has_table_privilege(c.oid, 'SELECT') AND NOT EXISTS (
             SELECT FROM pg_temp.pipestate_memory m WHERE m.what = 'created' AND m.oid = b.oid AND m.number IN (0, d.attnum))
     ORDER BY 1, 3, 5
  LOOP
    known := concat(old.oid, '.', old.number);
    IF old.place = 1 THEN
      DELETE FROM pg_temp.pipestate_memory m WHERE m.what IN (concat('had ', known), concat('kept ', known), concat('own ', known));
      IF writes THEN
        EXECUTE format('SELECT count(t.%1$I), count(DISTINCT t.%1$I::text) FROM %2$s t', old.attname, old.relation) INTO had, same;
        INSERT INTO pg_temp.pipestate_memory VALUES (concat('own ', known), old.oid, 0, had), (concat('own ', known), old.oid, 1, same);
      END IF;
    END IF;
    CONTINUE WHEN old.other IS NULL;
    IF old.is_old THEN
      EXECUTE format('SELECT NOT EXISTS (SELECT FROM %3$s t WHERE t.%1$I IS NOT NULL AND (t.%2$I IS NULL OR t.%1$I::text <> t.%2$I::text)) '
        'AND EXISTS (SELECT FROM %3$s t WHERE t.%1$I IS NOT NULL)', old.attname, old.candidate, old.relation) INTO is_copy;
      CONTINUE WHEN NOT is_copy;
    END IF;
    EXECUTE format('SELECT count(t.%1$I), count(t.%2$I) FILTER (WHERE t.%1$I IS NOT NULL), count(*) FILTER (WHERE t.%1$I::text = t.%2$I::text) '
      'FROM %3$s t', old.attname, old.candidate, old.relation) INTO had, kept, same;
    is_copy := kept >= had / 2.0 AND same >= had / 2.0;
    IF NOT is_copy AND kept >= had / 2.0 AND (NOT old.is_new OR old.written IS NULL OR old.written >= had / 2.0) THEN
      EXECUTE format('SELECT count(DISTINCT t.%2$I::text) >= count(DISTINCT t.%1$I::text) / 2.0 FROM %3$s t',
        old.attname, old.candidate, old.relation) INTO is_copy;
    END IF;
    IF is_copy THEN
      INSERT INTO pg_temp.pipestate_memory VALUES (concat('had ', known), old.oid, old.other, had), (concat('kept ', known), old.oid, old.other, kept);
    END IF;
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION pg_temp.pipestate_fire_deferred(path text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  statement text;
BEGIN
  FOR statement IN
    SELECT concat_ws(' ', 'SET CONSTRAINTS', string_agg(format('%I.%I', n.nspname, c.conname), ', '), m.mode)
      FROM pg_constraint c JOIN pg_namespace n ON n.oid = c.connamespace
     CROSS JOIN (VALUES (1, 'IMMEDIATE'), (2, 'DEFERRED')) AS m (place, mode)
     WHERE c.contype = 't' AND c.condeferrable
       AND has_schema_privilege(n.oid, 'USAGE')  -- else this role cannot name it
       AND (m.place = 1 OR c.condeferred AND NOT EXISTS (  -- a namesake that waits for nothing is an error
             SELECT FROM pg_constraint o WHERE o.connamespace = c.connamespace
                AND o.conname = c.conname AND NOT o.condeferrable))
     GROUP BY m.place, m.mode ORDER BY m.place
  LOOP
    PERFORM set_config('search_path', path, true);
    EXECUTE statement;
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  END LOOP;
END $$;

CREATE OR REPLACE FUNCTION pg_temp.pipestate_losses(statements text) RETURNS TABLE (kind text, name text, rows bigint, detail text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  old record;
  new record;
  col record;
  there record;
  heir boolean;
  had bigint;
  copied bigint;
  counted bigint[];
  place integer;
  differs boolean;
  known text;
  by_hand boolean := statements ~* '\musing\M';
  old_domains jsonb := (SELECT jsonb_object_agg(b.oid, jsonb_build_array(b.parent, b.filenode))
                          FROM pg_temp.pipestate_before b WHERE b.kind = 'd');
  new_domains jsonb;
BEGIN
  CREATE TEMP TABLE pipestate_after ON COMMIT DROP AS SELECT * FROM pg_temp.pipestate_catalogue();
  new_domains := (SELECT jsonb_object_agg(a.oid, jsonb_build_array(a.parent, a.filenode))
                    FROM pg_temp.pipestate_after a WHERE a.kind = 'd');
  INSERT INTO pg_temp.pipestate_memory SELECT 'held', b.oid, 0 FROM pg_temp.pipestate_before b WHERE b.kind = 'r' AND b.bytes <> 0;
  FOR old IN SELECT b.* FROM pg_temp.pipestate_before b LEFT JOIN pg_temp.pipestate_after a ON a.oid = b.oid
      WHERE b.kind IN ('r', 'p', 'c') AND (a.oid IS NULL OR a.columns <> b.columns OR a.filenode <> b.filenode)
        AND NOT EXISTS (SELECT FROM pg_temp.pipestate_memory m WHERE m.what = 'created' AND m.oid = b.oid AND m.number = 0)
        AND (pg_temp.pipestate_held_before(b.oid) OR EXISTS (
              SELECT FROM unnest(pg_temp.pipestate_kept_in(b.rowtype::oid)) AS u (oid) WHERE pg_temp.pipestate_held_before(u.oid)
                AND NOT EXISTS (SELECT FROM pg_temp.pipestate_memory m WHERE m.what = 'created' AND m.oid = u.oid AND m.number = 0))) LOOP
    known := CASE old.schema WHEN 'public' THEN '' ELSE old.schema || '.' END || old.name;
    rows := (SELECT nullif(sum(l.rows) FILTER (WHERE l.rows > 0), 0)::bigint FROM pg_temp.pipestate_leaves_before(old.oid) l);
    detail := NULL;
    SELECT a.* INTO new FROM pg_temp.pipestate_after a WHERE a.oid = old.oid;
    heir := new IS NULL;
    IF heir THEN
      CONTINUE WHEN old.kind = 'c' OR EXISTS (SELECT FROM pg_temp.pipestate_after a WHERE a.kind = 'x' AND a.oid = old.extension);
      SELECT a.* INTO new FROM pg_temp.pipestate_after a WHERE a.kind IN ('r', 'p') AND a.schema = old.schema AND a.name = old.name
         AND NOT EXISTS (SELECT FROM pg_temp.pipestate_before b WHERE b.oid = a.oid);
      IF new IS NOT NULL THEN
        INSERT INTO pg_temp.pipestate_memory VALUES ('held', new.oid, 0), ('heir', new.oid, 0);
      END IF;
      CONTINUE WHEN EXISTS (SELECT FROM pg_temp.pipestate_before b WHERE b.oid = old.parent)
        AND NOT EXISTS (SELECT FROM pg_temp.pipestate_after a WHERE a.oid = old.parent);  -- its parent says it
      IF new IS NULL THEN
        kind := 'table'; name := known; RETURN NEXT;
        CONTINUE;
      END IF;
      -- A copy was filled while the old table was there, and has at least half of its rows and of each column's values.
      had := (SELECT nullif(max(m.rows), 0) FROM pg_temp.pipestate_memory m
               WHERE m.what = concat('copy of ', old.oid) AND m.oid IN (0, new.oid));
      counted := pg_temp.pipestate_count_values(new.schema, new.name, ARRAY(SELECT c.name FROM pg_temp.pipestate_listed_columns(new.columns) c ORDER BY c.number));
      copied := counted[1];
      IF had IS NULL OR copied < had / 2.0 THEN
        kind := 'rows'; name := known; rows := coalesce(had, rows); RETURN NEXT;
        CONTINUE;
      ELSIF copied < had THEN
        RAISE WARNING 'the new table % has % rows, and the old one had %', known, copied, had;
      END IF;
    END IF;
    FOR col IN SELECT c.* FROM pg_temp.pipestate_listed_columns(old.columns) c
        WHERE NOT EXISTS (SELECT FROM pg_temp.pipestate_memory m WHERE m.what = 'created' AND (m.oid, m.number) = (old.oid, c.number)) LOOP
      SELECT c.* INTO there FROM pg_temp.pipestate_listed_columns(new.columns) c
       WHERE CASE WHEN heir THEN c.name = col.name ELSE c.number = col.number END;
      IF there IS NULL AND NOT heir THEN
        CONTINUE WHEN new.parent = old.parent AND EXISTS (SELECT FROM pg_temp.pipestate_before b WHERE b.oid = old.parent);  -- which says it
        SELECT c.* INTO there FROM pg_temp.pipestate_listed_columns(new.columns) c WHERE c.name = col.name;
        SELECT h.rows, k.rows INTO had, copied FROM pg_temp.pipestate_memory h JOIN pg_temp.pipestate_memory k USING (oid, number)
         WHERE there IS NOT NULL AND h.what = concat('had ', old.oid, '.', col.number) AND k.what = concat('kept ', old.oid, '.', col.number)
           AND h.number = there.number;
        IF had > copied THEN
          RAISE WARNING 'the new column %.% has % values, and the old one had %', known, col.name, copied, had;
        ELSIF had IS NULL AND NOT EXISTS (SELECT FROM pg_temp.pipestate_memory m WHERE m.what = concat('own ', old.oid, '.', col.number)) THEN
          there := NULL;
        ELSIF had IS NULL AND there IS NOT NULL THEN
          -- One text wrote and dropped it, so its copy is counted now. cmin is the number of the command, within this transaction, that
          -- wrote a row: before the drop.
          EXECUTE format('SELECT count(t.%1$I), count(DISTINCT t.%1$I::text), coalesce(bool_or(t.%1$I IS NOT NULL AND t.xmax = 0 '
              'AND t.cmin::text::bigint < %2$s), false) FROM %3$I.%4$I t', there.name, (SELECT a.cmin::text::bigint FROM pg_attribute a
              WHERE a.attrelid = old.oid::oid AND a.attnum = col.number), new.schema, new.name) INTO had, copied, differs;
          IF NOT differs OR there.filled OR EXISTS (SELECT FROM pg_temp.pipestate_listed_columns(old.columns) c WHERE c.number = there.number)
             OR (SELECT count(*) FROM pg_temp.pipestate_memory m WHERE m.what = concat('own ', old.oid, '.', col.number)
                    AND CASE m.number WHEN 0 THEN had ELSE copied END >= m.rows / 2.0) < 2 THEN
            there := NULL;
          END IF;
        END IF;
        IF there IS NOT NULL THEN
          INSERT INTO pg_temp.pipestate_memory VALUES ('heir', new.oid, there.number);
        END IF;
      ELSIF heir AND there IS NOT NULL THEN
        SELECT v.rows, d.rows = 1 INTO copied, differs FROM pg_temp.pipestate_memory v JOIN pg_temp.pipestate_memory d USING (oid, number)
         WHERE v.what = 'values' AND d.what = 'differ' AND (v.oid, v.number) = (old.oid, col.number);
        IF copied IS NULL THEN
          there := NULL;  -- it was dropped before its table
        ELSE
          place := (SELECT count(*) FROM pg_temp.pipestate_listed_columns(new.columns) c WHERE c.number <= there.number);
          IF counted[2 * place] < copied / 2.0 OR differs AND counted[2 * place + 1] = 0 AND counted[1] >= (
               SELECT max(m.rows) FROM pg_temp.pipestate_memory m WHERE m.what = concat('copy of ', old.oid)) THEN
            kind := 'values'; name := known || '.' || col.name; detail := 'most were not copied'; RETURN NEXT;
            detail := NULL;
            CONTINUE;
          END IF;
        END IF;
      END IF;
      IF there IS NULL THEN
        CONTINUE WHEN EXISTS (SELECT FROM pg_temp.pipestate_before b JOIN pg_temp.pipestate_after a ON a.oid = b.oid
          WHERE b.oid = old.parent AND NOT EXISTS (SELECT FROM pg_temp.pipestate_listed_columns(a.columns) c WHERE c.name = col.name));
        kind := 'column'; name := known || '.' || col.name; RETURN NEXT;
      ELSIF (there.type, there.modifier) <> (col.type, col.modifier) THEN
        SELECT format('%s becomes %s', format_type(o.base, o.modified), format_type(n.base, n.modified))
          INTO detail
          FROM pg_temp.pipestate_base_type(col.type, col.modifier, coalesce(old_domains, '{}')) o,
               pg_temp.pipestate_base_type(there.type, there.modifier, coalesce(new_domains, '{}')) n
         WHERE (o.base, o.modified) <> (n.base, n.modified)
           AND pg_temp.pipestate_loses(o.base, o.modified, n.base, n.modified, by_hand);
        IF detail IS NOT NULL THEN
          kind := 'values'; name := known || '.' || col.name; RETURN NEXT;
        END IF;
        detail := NULL;
      END IF;
    END LOOP;
    -- TRUNCATE leaves nothing, or is written in a statement, or most rows are gone; a rewrite leaves them.
    IF NOT heir AND old.kind = 'r' AND old.bytes <> 0 AND new.filenode <> old.filenode AND (new.bytes = 0
        OR statements ~* ('\mtruncate\M[^;]*\m' || regexp_replace(old.name, '\W', '\\&', 'g') || '\M')
        OR (old.rows > 0 AND new.bytes < old.bytes / 2
            AND pg_temp.pipestate_count_rows(new.schema, new.name, 'true', old.rows::bigint) < old.rows / 2)) THEN
      kind := 'rows'; name := known; RETURN NEXT;
    END IF;
  END LOOP;
  detail := NULL;
  FOR old IN WITH RECURSIVE family (oid, parent) AS (
        SELECT b.oid, b.parent FROM pg_temp.pipestate_before b JOIN pg_temp.pipestate_after a ON (a.oid, a.filenode) = (b.oid, b.filenode)
         WHERE b.oid = ANY (pg_temp.pipestate_emptied()) AND pg_temp.pipestate_held_before(b.oid)
           AND NOT EXISTS (SELECT FROM pg_temp.pipestate_memory m WHERE m.oid = b.oid
                             AND (m.what = 'emptied' OR m.what = 'created' AND m.number = 0))
        UNION SELECT b.oid, b.parent FROM pg_temp.pipestate_before b JOIN family f ON b.oid = f.parent AND b.kind = 'p')
      SELECT b.* FROM pg_temp.pipestate_before b JOIN family f ON f.oid = b.oid
       WHERE NOT EXISTS (SELECT FROM family g WHERE g.oid = b.parent) LOOP
    kind := 'rows';
    name := CASE old.schema WHEN 'public' THEN '' ELSE old.schema || '.' END || old.name;
    rows := (SELECT nullif(sum(l.rows) FILTER (WHERE l.rows > 0), 0)::bigint FROM pg_temp.pipestate_leaves_before(old.oid) l);
    RETURN NEXT;
  END LOOP;
  INSERT INTO pg_temp.pipestate_memory
  SELECT 'created', a.oid, 0 FROM pg_temp.pipestate_after a WHERE NOT EXISTS (SELECT FROM pg_temp.pipestate_before b WHERE b.oid = a.oid)
  UNION ALL
  SELECT 'created', a.oid, c.number FROM pg_temp.pipestate_after a JOIN pg_temp.pipestate_before b ON b.oid = a.oid
    AND b.columns <> a.columns, pg_temp.pipestate_listed_columns(a.columns) c
   WHERE NOT EXISTS (SELECT FROM pg_temp.pipestate_listed_columns(b.columns) o WHERE o.number = c.number);
  DELETE FROM pg_temp.pipestate_memory c USING pg_temp.pipestate_memory h
   WHERE c.what = 'created' AND h.what = 'heir' AND (c.oid, c.number) = (h.oid, h.number);
  DROP TABLE pg_temp.pipestate_after;
END $$;

CREATE OR REPLACE PROCEDURE pg_temp.pipestate_begin_revision(revision text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF to_regclass('pg_temp.pipestate_before') IS NULL THEN
    CREATE TEMP TABLE pipestate_before AS SELECT * FROM pg_temp.pipestate_catalogue() LIMIT 0;
    CREATE TEMP TABLE pipestate_memory (what text, oid bigint, number integer, rows bigint);  -- tables and columns: 'created', 'held'
  END IF;
  DELETE FROM pg_temp.pipestate_before;
  INSERT INTO pg_temp.pipestate_before SELECT * FROM pg_temp.pipestate_catalogue();
  DELETE FROM pg_temp.pipestate_memory m WHERE m.what = 'emptied';
  INSERT INTO pg_temp.pipestate_memory SELECT 'emptied', u.oid, 0 FROM unnest(pg_temp.pipestate_emptied()) AS u (oid);
  PERFORM set_config('pipestate.begun', revision, true);
END $$;

CREATE OR REPLACE PROCEDURE pg_temp.pipestate_end_revision(
  revision text, direction text, mode text, reason text, statements text, own boolean,
  path text DEFAULT pg_catalog.current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found jsonb;
  said text;
  options text;
BEGIN
  PERFORM pg_temp.pipestate_fire_deferred(path);
  IF current_setting('pipestate.begun', true) IS DISTINCT FROM revision THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'revision %s was not begun in this transaction: run the whole script', revision);
  END IF;
  SELECT jsonb_agg(jsonb_strip_nulls(jsonb_build_object('kind', l.kind, 'name', l.name, 'rows', l.rows))),
         string_agg(concat(CASE l.kind WHEN 'table' THEN 'the table ' WHEN 'column' THEN 'the column '
             WHEN 'rows' THEN 'the rows of ' ELSE 'parts of the values of ' END, l.name,
           ' (' || nullif(concat_ws(', ', 'about ' || to_char(l.rows, 'FM999,999,999,999') || ' rows', l.detail), '')
             || ')'), ', '),
         string_agg(concat(' --drop-', l.kind, ' ', l.name), '') FILTER (WHERE l.kind IN ('table', 'column'))
    INTO found, said, options
    FROM pg_temp.pipestate_losses(statements) l
   WHERE l.name !~ '\._pipestate_\d+_0$' AND (NOT own OR l.name !~ '^pipestate[._]');  -- a restore drops its mark
  IF found IS NOT NULL AND mode = 'refuse' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'the %1$s of revision %2$s loses %3$s, so this transaction is rolled back; earlier COMMITs stay. To go on, %4$swrite the script with a reason: '
      'alembic -x force="reason" %1$s ... --sql', direction, revision, said, CASE direction WHEN 'upgrade' THEN
      'put it behind a gate: pipestate revision --contract RUNBOOK/PHASE' || coalesce(options, '') || '; or ' ELSE '' END);
  ELSIF found IS NOT NULL AND mode <> 'allow' THEN
    RAISE WARNING 'revision % loses %', revision, said || CASE mode WHEN 'force' THEN ', and is forced: ' || reason
      ELSE '; losses are not enforced here' END;
  END IF;
  PERFORM set_config('pipestate.dropped', (coalesce(nullif(current_setting('pipestate.dropped', true), ''),
    '[]')::jsonb || coalesce(found, '[]'))::text, false);
  PERFORM set_config('pipestate.begun', '', true);
  DELETE FROM pg_temp.pipestate_open o WHERE o.revision = $1;  -- one that was refused stays, and COMMIT fails
END $$;

-- Say whether there is a ledger, and of trusted roles alone.
CREATE OR REPLACE FUNCTION pg_temp.pipestate_may_record() RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN to_regprocedure('pipestate.record_revision(text, text, text, text, text, text, text, text)') IS NOT NULL
    AND to_regclass('pipestate.run') IS NOT NULL AND NOT EXISTS (SELECT o.what, pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me
    FROM (SELECT concat('the schema ', n.nspname) AS what, n.nspowner AS owner
    FROM pg_namespace n WHERE n.nspname IN ('pipestate', 'pipestate_archive')
    UNION ALL
    SELECT concat(n.nspname, '.', c.relname), c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    UNION ALL
    SELECT concat(n.nspname, '.', p.proname, '()'), p.proowner FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname IN ('pipestate', 'pipestate_archive')) AS o
    WHERE NOT ((o.owner = to_regrole(quote_ident(current_user))::oid
      OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_database d WHERE d.datname = current_database() AND d.datdba = o.owner)
      OR (NOT current_setting('is_superuser') = 'on' AND (pg_has_role(o.owner, 'USAGE') OR pg_has_role(o.owner,
        CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END)))
      OR EXISTS (SELECT FROM pg_class c WHERE c.relowner = o.owner AND c.oid = to_regclass(nullif(current_setting('pipestate.version_table', true), ''))))) LIMIT 1);
END $$;

-- Record the revision there.
CREATE OR REPLACE PROCEDURE pg_temp.pipestate_record(
  event text, revision text, title text, file_sha256 text, version_table text, actor text, reason text)
LANGUAGE plpgsql AS $$
BEGIN
  IF pg_temp.pipestate_may_record() THEN
    CALL pipestate.record_revision(event, revision, title, file_sha256, version_table, actor, reason);
  ELSE
    PERFORM pg_catalog.set_config('pipestate.dropped', '', false);
  END IF;
END $$;

DO $open$ BEGIN  -- until end_revision has judged it, COMMIT fails
  IF pg_catalog.to_regclass('pg_temp.pipestate_open') IS NULL THEN CREATE TEMP TABLE pipestate_open (revision text
    CONSTRAINT revision_was_not_judged_to_its_end UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP;
    IF pg_catalog.current_setting('session_replication_role') = 'replica' THEN  -- no key is checked: every COMMIT fails
      RAISE WARNING 'no script is judged in the session of a replica: SET session_replication_role = origin';
      CREATE CONSTRAINT TRIGGER replica AFTER INSERT ON pg_temp.pipestate_open DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger();
      ALTER TABLE pg_temp.pipestate_open ENABLE ALWAYS TRIGGER replica; END IF; END IF;
  INSERT INTO pg_temp.pipestate_open VALUES ('0002'), ('0002'); END $open$;

CALL pg_temp.pipestate_begin_revision('0002');

-- The database is at revision 0001, and no other migration is running
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0001' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision 0001, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

-- the ledger, where it is missing or older
DO $pipestate$
DECLARE
  path_before text := pg_catalog.current_setting('search_path');
  other_owner record;
  todo text;
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  IF current_user = 'pipestate' AND path_before LIKE '%$user%' THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE =
      'the role pipestate has "$user" on its search_path, so the schema pipestate would stand before public '
      'for it: connect as another role, or ALTER ROLE pipestate SET search_path = public';
  END IF;
  SELECT o.what, pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO other_owner
    FROM (SELECT concat('the schema ', n.nspname) AS what, n.nspowner AS owner
    FROM pg_namespace n WHERE n.nspname IN ('pipestate', 'pipestate_archive')
    UNION ALL
    SELECT concat(n.nspname, '.', c.relname), c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    UNION ALL
    SELECT concat(n.nspname, '.', p.proname, '()'), p.proowner FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname IN ('pipestate', 'pipestate_archive')) AS o
    WHERE NOT ((o.owner = to_regrole(quote_ident(current_user))::oid
      OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_database d WHERE d.datname = current_database() AND d.datdba = o.owner)
      OR (NOT current_setting('is_superuser') = 'on' AND (pg_has_role(o.owner, 'USAGE') OR pg_has_role(o.owner,
        CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END)))
      OR EXISTS (SELECT FROM pg_class c WHERE c.relowner = o.owner AND c.oid = to_regclass(nullif(current_setting('pipestate.version_table', true), '')))) AND pg_has_role(o.owner, 'USAGE')) LIMIT 1;
  IF other_owner.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', other_owner.what, other_owner.owner, other_owner.me);
  END IF;
  IF to_regnamespace('pipestate') IS NULL THEN
    CREATE SCHEMA pipestate;
  END IF;
  IF to_regnamespace('pipestate_archive') IS NULL THEN
    CREATE SCHEMA pipestate_archive;
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
  IF to_regclass('pipestate.soft_drop') IS NULL THEN
    CREATE TABLE pipestate.soft_drop (
      id BIGINT GENERATED BY DEFAULT AS IDENTITY,
      revision TEXT NOT NULL,
      gate TEXT,
      kind TEXT NOT NULL,
      schema_name TEXT NOT NULL,
      table_name TEXT NOT NULL,
      name TEXT NOT NULL,
      columns JSONB,
      removed JSONB,
      renamed JSONB,
      held BOOLEAN,
      state TEXT NOT NULL,
      xact BIGINT,
      writers JSONB,
      dropped_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
      restored_at TIMESTAMP WITH TIME ZONE,
      purged_at TIMESTAMP WITH TIME ZONE,
      CONSTRAINT pk_pipestate_soft_drop PRIMARY KEY (id),
      CONSTRAINT ck_pipestate_soft_drop_state CHECK (state IN ('hidden', 'validating', 'restored', 'purged', 'absent'))
    );
  END IF;
  SELECT string_agg('ADD COLUMN ' || wanted.definition, ', ') INTO todo
    FROM (VALUES ('id', $def$id BIGINT GENERATED BY DEFAULT AS IDENTITY$def$),
           ('revision', $def$revision TEXT$def$),
           ('gate', $def$gate TEXT$def$),
           ('kind', $def$kind TEXT$def$),
           ('schema_name', $def$schema_name TEXT$def$),
           ('table_name', $def$table_name TEXT$def$),
           ('name', $def$name TEXT$def$),
           ('columns', $def$columns JSONB$def$),
           ('removed', $def$removed JSONB$def$),
           ('renamed', $def$renamed JSONB$def$),
           ('held', $def$held BOOLEAN$def$),
           ('state', $def$state TEXT$def$),
           ('xact', $def$xact BIGINT$def$),
           ('writers', $def$writers JSONB$def$),
           ('dropped_at', $def$dropped_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL$def$),
           ('restored_at', $def$restored_at TIMESTAMP WITH TIME ZONE$def$),
           ('purged_at', $def$purged_at TIMESTAMP WITH TIME ZONE$def$)) AS wanted (name, definition)
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pipestate.soft_drop'::regclass
                     AND a.attname = wanted.name AND NOT a.attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE 'ALTER TABLE pipestate.soft_drop ' || todo;
  END IF;
  IF to_regclass('pipestate.run') IS NULL THEN
    CREATE TABLE pipestate.run (
      id BIGINT GENERATED BY DEFAULT AS IDENTITY,
      recorded_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
      event TEXT NOT NULL,
      actor TEXT NOT NULL,
      runbook TEXT,
      phase TEXT,
      gate TEXT,
      runbook_sha256 TEXT,
      revision TEXT,
      passed INTEGER DEFAULT 0 NOT NULL,
      failed INTEGER DEFAULT 0 NOT NULL,
      warned INTEGER DEFAULT 0 NOT NULL,
      errored INTEGER DEFAULT 0 NOT NULL,
      skipped INTEGER DEFAULT 0 NOT NULL,
      duration_ms FLOAT,
      reason TEXT,
      role TEXT DEFAULT current_user,
      title TEXT,
      file_sha256 TEXT,
      version_table TEXT,
      dropped JSONB,
      phase_sha256 TEXT,
      database TEXT,
      CONSTRAINT pk_pipestate_run PRIMARY KEY (id)
    );
  END IF;
  SELECT string_agg('ADD COLUMN ' || wanted.definition, ', ') INTO todo
    FROM (VALUES ('id', $def$id BIGINT GENERATED BY DEFAULT AS IDENTITY$def$),
           ('recorded_at', $def$recorded_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL$def$),
           ('event', $def$event TEXT$def$),
           ('actor', $def$actor TEXT$def$),
           ('runbook', $def$runbook TEXT$def$),
           ('phase', $def$phase TEXT$def$),
           ('gate', $def$gate TEXT$def$),
           ('runbook_sha256', $def$runbook_sha256 TEXT$def$),
           ('revision', $def$revision TEXT$def$),
           ('passed', $def$passed INTEGER DEFAULT 0 NOT NULL$def$),
           ('failed', $def$failed INTEGER DEFAULT 0 NOT NULL$def$),
           ('warned', $def$warned INTEGER DEFAULT 0 NOT NULL$def$),
           ('errored', $def$errored INTEGER DEFAULT 0 NOT NULL$def$),
           ('skipped', $def$skipped INTEGER DEFAULT 0 NOT NULL$def$),
           ('duration_ms', $def$duration_ms FLOAT$def$),
           ('reason', $def$reason TEXT$def$),
           ('role', $def$role TEXT DEFAULT current_user$def$),
           ('title', $def$title TEXT$def$),
           ('file_sha256', $def$file_sha256 TEXT$def$),
           ('version_table', $def$version_table TEXT$def$),
           ('dropped', $def$dropped JSONB$def$),
           ('phase_sha256', $def$phase_sha256 TEXT$def$),
           ('database', $def$database TEXT$def$)) AS wanted (name, definition)
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pipestate.run'::regclass
                     AND a.attname = wanted.name AND NOT a.attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE 'ALTER TABLE pipestate.run ' || todo;
  END IF;
  IF to_regclass('pipestate.idx_pipestate_run_phase') IS NULL THEN
    CREATE INDEX idx_pipestate_run_phase ON pipestate.run (runbook, phase, recorded_at);
  END IF;
  IF to_regclass('pipestate.result') IS NULL THEN
    CREATE TABLE pipestate.result (
      id BIGINT GENERATED BY DEFAULT AS IDENTITY,
      run_id BIGINT NOT NULL,
      check_id TEXT NOT NULL,
      outcome TEXT NOT NULL,
      level TEXT NOT NULL,
      required TEXT,
      observed JSONB,
      message TEXT,
      duration_ms FLOAT,
      CONSTRAINT pk_pipestate_result PRIMARY KEY (id),
      CONSTRAINT fk_pipestate_result_run FOREIGN KEY(run_id) REFERENCES pipestate.run (id) ON DELETE CASCADE
    );
  END IF;
  SELECT string_agg('ADD COLUMN ' || wanted.definition, ', ') INTO todo
    FROM (VALUES ('id', $def$id BIGINT GENERATED BY DEFAULT AS IDENTITY$def$),
           ('run_id', $def$run_id BIGINT$def$),
           ('check_id', $def$check_id TEXT$def$),
           ('outcome', $def$outcome TEXT$def$),
           ('level', $def$level TEXT$def$),
           ('required', $def$required TEXT$def$),
           ('observed', $def$observed JSONB$def$),
           ('message', $def$message TEXT$def$),
           ('duration_ms', $def$duration_ms FLOAT$def$)) AS wanted (name, definition)
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pipestate.result'::regclass
                     AND a.attname = wanted.name AND NOT a.attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE 'ALTER TABLE pipestate.result ' || todo;
  END IF;
  IF to_regclass('pipestate.idx_pipestate_result_run') IS NULL THEN
    CREATE INDEX idx_pipestate_result_run ON pipestate.result (run_id);
  END IF;
  IF to_regclass('pipestate.attestation') IS NULL THEN
    CREATE TABLE pipestate.attestation (
      id BIGINT GENERATED BY DEFAULT AS IDENTITY,
      signed_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
      runbook TEXT NOT NULL,
      phase TEXT NOT NULL,
      name TEXT NOT NULL,
      person TEXT NOT NULL,
      note TEXT,
      revision TEXT,
      text_sha256 TEXT,
      database TEXT,
      CONSTRAINT pk_pipestate_attestation PRIMARY KEY (id),
      CONSTRAINT ck_pipestate_attestation_person CHECK (trim(person) <> '')
    );
  END IF;
  SELECT string_agg('ADD COLUMN ' || wanted.definition, ', ') INTO todo
    FROM (VALUES ('id', $def$id BIGINT GENERATED BY DEFAULT AS IDENTITY$def$),
           ('signed_at', $def$signed_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL$def$),
           ('runbook', $def$runbook TEXT$def$),
           ('phase', $def$phase TEXT$def$),
           ('name', $def$name TEXT$def$),
           ('person', $def$person TEXT$def$),
           ('note', $def$note TEXT$def$),
           ('revision', $def$revision TEXT$def$),
           ('text_sha256', $def$text_sha256 TEXT$def$),
           ('database', $def$database TEXT$def$)) AS wanted (name, definition)
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pipestate.attestation'::regclass
                     AND a.attname = wanted.name AND NOT a.attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE 'ALTER TABLE pipestate.attestation ' || todo;
  END IF;
  IF to_regclass('pipestate.idx_pipestate_attestation_name') IS NULL THEN
    CREATE INDEX idx_pipestate_attestation_name ON pipestate.attestation (runbook, phase, name, signed_at);
  END IF;
  IF to_regclass('pipestate.observation') IS NULL THEN
    CREATE TABLE pipestate.observation (
      id BIGINT GENERATED BY DEFAULT AS IDENTITY,
      observed_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
      name TEXT NOT NULL,
      value FLOAT NOT NULL,
      source TEXT NOT NULL,
      actor TEXT NOT NULL,
      revision TEXT,
      CONSTRAINT pk_pipestate_observation PRIMARY KEY (id)
    );
  END IF;
  SELECT string_agg('ADD COLUMN ' || wanted.definition, ', ') INTO todo
    FROM (VALUES ('id', $def$id BIGINT GENERATED BY DEFAULT AS IDENTITY$def$),
           ('observed_at', $def$observed_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL$def$),
           ('name', $def$name TEXT$def$),
           ('value', $def$value FLOAT$def$),
           ('source', $def$source TEXT$def$),
           ('actor', $def$actor TEXT$def$),
           ('revision', $def$revision TEXT$def$)) AS wanted (name, definition)
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pipestate.observation'::regclass
                     AND a.attname = wanted.name AND NOT a.attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE 'ALTER TABLE pipestate.observation ' || todo;
  END IF;
  IF to_regclass('pipestate.idx_pipestate_observation_name') IS NULL THEN
    CREATE INDEX idx_pipestate_observation_name ON pipestate.observation (name, observed_at, id);
  END IF;
  IF to_regclass('pipestate.backfill_progress') IS NULL THEN
    CREATE TABLE pipestate.backfill_progress (
      id BIGINT GENERATED BY DEFAULT AS IDENTITY,
      runbook TEXT NOT NULL,
      name TEXT NOT NULL,
      table_name TEXT NOT NULL,
      key_column TEXT NOT NULL,
      sql_sha256 TEXT NOT NULL,
      actor TEXT NOT NULL,
      revision TEXT,
      first_key TEXT,
      last_key TEXT,
      rows_seen BIGINT DEFAULT 0 NOT NULL,
      rows_expected BIGINT DEFAULT 0 NOT NULL,
      rows_updated BIGINT DEFAULT 0 NOT NULL,
      rows_left BIGINT,
      batches INTEGER DEFAULT 0 NOT NULL,
      started_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
      updated_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
      finished_at TIMESTAMP WITH TIME ZONE,
      paused_at TIMESTAMP WITH TIME ZONE,
      paused_by TEXT,
      batch_rows INTEGER,
      CONSTRAINT pk_pipestate_backfill_progress PRIMARY KEY (id)
    );
  END IF;
  SELECT string_agg('ADD COLUMN ' || wanted.definition, ', ') INTO todo
    FROM (VALUES ('id', $def$id BIGINT GENERATED BY DEFAULT AS IDENTITY$def$),
           ('runbook', $def$runbook TEXT$def$),
           ('name', $def$name TEXT$def$),
           ('table_name', $def$table_name TEXT$def$),
           ('key_column', $def$key_column TEXT$def$),
           ('sql_sha256', $def$sql_sha256 TEXT$def$),
           ('actor', $def$actor TEXT$def$),
           ('revision', $def$revision TEXT$def$),
           ('first_key', $def$first_key TEXT$def$),
           ('last_key', $def$last_key TEXT$def$),
           ('rows_seen', $def$rows_seen BIGINT DEFAULT 0 NOT NULL$def$),
           ('rows_expected', $def$rows_expected BIGINT DEFAULT 0 NOT NULL$def$),
           ('rows_updated', $def$rows_updated BIGINT DEFAULT 0 NOT NULL$def$),
           ('rows_left', $def$rows_left BIGINT$def$),
           ('batches', $def$batches INTEGER DEFAULT 0 NOT NULL$def$),
           ('started_at', $def$started_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL$def$),
           ('updated_at', $def$updated_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL$def$),
           ('finished_at', $def$finished_at TIMESTAMP WITH TIME ZONE$def$),
           ('paused_at', $def$paused_at TIMESTAMP WITH TIME ZONE$def$),
           ('paused_by', $def$paused_by TEXT$def$),
           ('batch_rows', $def$batch_rows INTEGER$def$)) AS wanted (name, definition)
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pipestate.backfill_progress'::regclass
                     AND a.attname = wanted.name AND NOT a.attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE 'ALTER TABLE pipestate.backfill_progress ' || todo;
  END IF;
  IF to_regclass('pipestate.idx_pipestate_backfill_progress_name') IS NULL THEN
    CREATE INDEX idx_pipestate_backfill_progress_name ON pipestate.backfill_progress (runbook, name, id);
  END IF;
  IF to_regclass('pipestate.rehearsal') IS NULL THEN
    CREATE TABLE pipestate.rehearsal (
      id BIGINT GENERATED BY DEFAULT AS IDENTITY,
      rehearsed_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
      actor TEXT NOT NULL,
      revision TEXT,
      target TEXT,
      files JSONB NOT NULL,
      clone TEXT NOT NULL,
      rows BIGINT DEFAULT 0 NOT NULL,
      longest_wait_ms FLOAT,
      idle_wait_ms FLOAT,
      bounded BOOLEAN,
      ok BOOLEAN,
      duration_ms FLOAT,
      kind TEXT DEFAULT 'rehearse' NOT NULL,
      tables JSONB,
      scale FLOAT,
      statements INTEGER,
      broken INTEGER,
      changed INTEGER,
      unprepared INTEGER,
      database TEXT,
      watch JSONB,
      CONSTRAINT pk_pipestate_rehearsal PRIMARY KEY (id)
    );
  END IF;
  SELECT string_agg('ADD COLUMN ' || wanted.definition, ', ') INTO todo
    FROM (VALUES ('id', $def$id BIGINT GENERATED BY DEFAULT AS IDENTITY$def$),
           ('rehearsed_at', $def$rehearsed_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL$def$),
           ('actor', $def$actor TEXT$def$),
           ('revision', $def$revision TEXT$def$),
           ('target', $def$target TEXT$def$),
           ('files', $def$files JSONB$def$),
           ('clone', $def$clone TEXT$def$),
           ('rows', $def$rows BIGINT DEFAULT 0 NOT NULL$def$),
           ('longest_wait_ms', $def$longest_wait_ms FLOAT$def$),
           ('idle_wait_ms', $def$idle_wait_ms FLOAT$def$),
           ('bounded', $def$bounded BOOLEAN$def$),
           ('ok', $def$ok BOOLEAN$def$),
           ('duration_ms', $def$duration_ms FLOAT$def$),
           ('kind', $def$kind TEXT DEFAULT 'rehearse' NOT NULL$def$),
           ('tables', $def$tables JSONB$def$),
           ('scale', $def$scale FLOAT$def$),
           ('statements', $def$statements INTEGER$def$),
           ('broken', $def$broken INTEGER$def$),
           ('changed', $def$changed INTEGER$def$),
           ('unprepared', $def$unprepared INTEGER$def$),
           ('database', $def$database TEXT$def$),
           ('watch', $def$watch JSONB$def$)) AS wanted (name, definition)
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pipestate.rehearsal'::regclass
                     AND a.attname = wanted.name AND NOT a.attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE 'ALTER TABLE pipestate.rehearsal ' || todo;
  END IF;
  IF to_regclass('pipestate.statement_calls') IS NULL THEN
    CREATE TABLE pipestate.statement_calls (
      id BIGINT GENERATED BY DEFAULT AS IDENTITY,
      observed_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
      actor TEXT NOT NULL,
      contract TEXT NOT NULL,
      server TEXT NOT NULL,
      database TEXT,
      fault TEXT,
      started_at TIMESTAMP WITH TIME ZONE,
      stats_reset TIMESTAMP WITH TIME ZONE,
      evictions BIGINT,
      standbys INTEGER DEFAULT 0 NOT NULL,
      calls JSONB NOT NULL,
      CONSTRAINT pk_pipestate_statement_calls PRIMARY KEY (id)
    );
  END IF;
  SELECT string_agg('ADD COLUMN ' || wanted.definition, ', ') INTO todo
    FROM (VALUES ('id', $def$id BIGINT GENERATED BY DEFAULT AS IDENTITY$def$),
           ('observed_at', $def$observed_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL$def$),
           ('actor', $def$actor TEXT$def$),
           ('contract', $def$contract TEXT$def$),
           ('server', $def$server TEXT$def$),
           ('database', $def$database TEXT$def$),
           ('fault', $def$fault TEXT$def$),
           ('started_at', $def$started_at TIMESTAMP WITH TIME ZONE$def$),
           ('stats_reset', $def$stats_reset TIMESTAMP WITH TIME ZONE$def$),
           ('evictions', $def$evictions BIGINT$def$),
           ('standbys', $def$standbys INTEGER DEFAULT 0 NOT NULL$def$),
           ('calls', $def$calls JSONB$def$)) AS wanted (name, definition)
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pipestate.statement_calls'::regclass
                     AND a.attname = wanted.name AND NOT a.attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE 'ALTER TABLE pipestate.statement_calls ' || todo;
  END IF;
  IF to_regclass('pipestate.idx_pipestate_statement_calls_contract') IS NULL THEN
    CREATE INDEX idx_pipestate_statement_calls_contract ON pipestate.statement_calls (contract, id);
  END IF;
  IF to_regclass('pipestate.schema_record') IS NULL THEN
    CREATE TABLE pipestate.schema_record (
      id BIGINT GENERATED BY DEFAULT AS IDENTITY,
      recorded_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL,
      revision TEXT,
      actor TEXT NOT NULL,
      method TEXT NOT NULL,
      xid TEXT,
      catalogues JSONB,
      objects JSONB NOT NULL,
      CONSTRAINT pk_pipestate_schema_record PRIMARY KEY (id)
    );
  END IF;
  SELECT string_agg('ADD COLUMN ' || wanted.definition, ', ') INTO todo
    FROM (VALUES ('id', $def$id BIGINT GENERATED BY DEFAULT AS IDENTITY$def$),
           ('recorded_at', $def$recorded_at TIMESTAMP WITH TIME ZONE DEFAULT clock_timestamp() NOT NULL$def$),
           ('revision', $def$revision TEXT$def$),
           ('actor', $def$actor TEXT$def$),
           ('method', $def$method TEXT$def$),
           ('xid', $def$xid TEXT$def$),
           ('catalogues', $def$catalogues JSONB$def$),
           ('objects', $def$objects JSONB$def$)) AS wanted (name, definition)
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pipestate.schema_record'::regclass
                     AND a.attname = wanted.name AND NOT a.attisdropped);
  IF todo IS NOT NULL THEN
    EXECUTE 'ALTER TABLE pipestate.schema_record ' || todo;
  END IF;
  CALL pipestate.require_version('1.ec6251729d4f');
  CREATE OR REPLACE VIEW pipestate.observed AS
  SELECT o.name,
         o.value,
         CASE WHEN o.observed_at <= statement_timestamp() + interval '5 minutes'
              THEN greatest(0, floor(extract(epoch FROM statement_timestamp() - o.observed_at)))::bigint
         END AS age_seconds,
         o.observed_at,
         o.source,
         o.actor,
         string_agg(o.value::text, ', ') OVER (
           PARTITION BY o.name ORDER BY o.observed_at DESC, o.id DESC ROWS BETWEEN CURRENT ROW AND 9 FOLLOWING
         ) AS last_ten,
         ceil(extract(epoch FROM o.observed_at - lag(o.observed_at) OVER (
           PARTITION BY o.name ORDER BY o.observed_at, o.id
         )))::bigint AS gap_seconds
  FROM pipestate.observation o
  WHERE o.observed_at > '-infinity' AND o.observed_at < 'infinity';
  CREATE OR REPLACE VIEW pipestate.latest_observation AS
  SELECT known.name,
         latest.value,
         CASE WHEN latest.observed_at <= statement_timestamp() + interval '5 minutes'
              THEN greatest(0, floor(extract(epoch FROM statement_timestamp() - latest.observed_at)))::bigint
         END AS age_seconds,
         latest.observed_at,
         latest.source,
         latest.actor,
         (SELECT string_agg(ten.value::text, ', ' ORDER BY ten.observed_at DESC, ten.id DESC)
          FROM (SELECT o.id, o.value, o.observed_at FROM pipestate.observation o
                WHERE o.name = known.name AND isfinite(o.observed_at)
                ORDER BY o.observed_at DESC, o.id DESC LIMIT 10) AS ten) AS last_ten
  FROM (SELECT DISTINCT o.name FROM pipestate.observation o) AS known
  CROSS JOIN LATERAL (
    SELECT o.value, o.observed_at, o.source, o.actor FROM pipestate.observation o
    WHERE o.name = known.name AND isfinite(o.observed_at)
    ORDER BY o.observed_at DESC, o.id DESC LIMIT 1
  ) AS latest;
  CREATE OR REPLACE VIEW pipestate.soak_since AS
  WITH written AS (
    SELECT r.runbook, r.phase, r.id, r.actor, r.recorded_at, r.gate, r.phase_sha256 <> first_value(r.phase_sha256) OVER (
             PARTITION BY r.runbook, r.phase ORDER BY r.recorded_at DESC, r.id DESC) AS is_other_text
    FROM pipestate.run r
    WHERE r.event = 'verify' AND (r.database IS NULL OR r.database = (SELECT pipestate.this_database()))
  ), record AS (
    SELECT r.runbook, r.phase, r.id, r.actor, r.recorded_at,
           r.gate IS NOT DISTINCT FROM 'open' AS is_open,
           isfinite(r.recorded_at) AND r.recorded_at <= statement_timestamp() + interval '5 minutes'
             AND count(*) FILTER (WHERE r.is_other_text) OVER back = 0 AS counts,
           count(*) FILTER (WHERE r.gate IS DISTINCT FROM 'open') OVER back AS closed
    FROM written r
    WINDOW back AS (PARTITION BY r.runbook, r.phase ORDER BY r.recorded_at DESC, r.id DESC)
  ), counted AS (
    SELECT r.runbook, r.phase, r.recorded_at,
           r.is_open AND r.counts AND r.closed = 0 AS in_streak,
           row_number() OVER back AS place,
           count(*) FILTER (WHERE r.is_open AND r.counts AND r.closed = 0) OVER back AS records,
           count(*) FILTER (WHERE r.is_open AND r.counts AND r.closed = 0) OVER whole AS of_all,
           coalesce(min(r.recorded_at) FILTER (WHERE r.is_open AND r.counts AND r.closed = 0) OVER (
             back ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), statement_timestamp()) AS next_at,
           max(r.recorded_at) OVER whole AS last_record_at,
           max(r.recorded_at) FILTER (WHERE NOT r.is_open) OVER whole AS last_closed_at,
           max(r.actor) FILTER (WHERE NOT r.is_open AND r.closed = 1) OVER whole AS last_closed_by
    FROM record r
    WINDOW whole AS (PARTITION BY r.runbook, r.phase),
           back AS (PARTITION BY r.runbook, r.phase ORDER BY r.recorded_at DESC, r.id DESC)
  ), streak AS (
    SELECT c.*,
           CASE WHEN c.in_streak
                THEN greatest(0, floor(extract(epoch FROM statement_timestamp() - c.recorded_at)))::bigint
           END AS open_s,
           max(CASE WHEN c.in_streak
                    THEN greatest(0, ceil(extract(epoch FROM c.next_at - c.recorded_at)))::bigint
               END) OVER (PARTITION BY c.runbook, c.phase ORDER BY c.place) AS gap_s,
           CASE WHEN isfinite(c.last_record_at)
                     AND c.last_record_at <= statement_timestamp() + interval '5 minutes'
                THEN greatest(0, ceil(extract(epoch FROM statement_timestamp() - c.last_record_at)))::bigint
           END AS last_s
    FROM counted c
  )
  SELECT s.runbook,
         s.phase,
         s.records,
         CASE WHEN s.in_streak THEN s.recorded_at END AS open_since,
         s.last_record_at,
         round((s.open_s * 100 / 86400) / 100.0, 2) AS days_open,
         round(((s.last_s * 100 + 3599) / 3600) / 100.0, 2) AS hours_since_last_record,
         round(((s.gap_s * 100 + 3599) / 3600) / 100.0, 2) AS longest_gap_hours,
         s.last_closed_at,
         s.last_closed_by
  FROM streak s
  WHERE s.in_streak OR (s.of_all = 0 AND s.place = 1);
  CREATE OR REPLACE VIEW pipestate.soak AS
  SELECT DISTINCT ON (s.runbook, s.phase)
         s.runbook,
         s.phase,
         s.records,
         s.open_since,
         s.last_record_at,
         s.days_open,
         s.hours_since_last_record,
         s.longest_gap_hours,
         s.last_closed_at,
         s.last_closed_by
  FROM pipestate.soak_since s
  ORDER BY s.runbook, s.phase, s.records DESC;
  CREATE OR REPLACE VIEW pipestate.sign_off AS
  SELECT a.runbook,
         a.phase,
         a.name,
         a.person,
         a.note,
         a.revision,
         a.signed_at,
         CASE WHEN isfinite(a.signed_at) AND a.signed_at <= statement_timestamp() + interval '5 minutes'
              THEN greatest(0, floor(extract(epoch FROM statement_timestamp() - a.signed_at)))::bigint
         END AS age_seconds,
         a.text_sha256
  FROM pipestate.attestation a
  WHERE a.database IS NULL OR a.database = (SELECT pipestate.this_database());
  CREATE OR REPLACE VIEW pipestate.backfill AS
  SELECT p.runbook,
         p.name AS id,
         p.table_name,
         p.first_key,
         p.last_key,
         p.rows_updated,
         p.rows_left,
         p.batches,
         CASE WHEN p.finished_at IS NOT NULL THEN 100
              WHEN p.rows_expected > 0 THEN least(99, floor(100.0 * p.rows_seen / p.rows_expected))::integer
              ELSE 0 END AS percent,
         p.started_at,
         p.updated_at,
         p.finished_at,
         p.actor,
         p.paused_at,
         p.paused_by,
         p.batch_rows
  FROM pipestate.backfill_progress p
  WHERE p.id = (SELECT max(latest.id) FROM pipestate.backfill_progress latest
                WHERE latest.runbook = p.runbook AND latest.name = p.name);
  CREATE OR REPLACE VIEW pipestate.rehearsed AS
  SELECT DISTINCT ON (f.revision)
         f.revision,
         r.longest_wait_ms,
         r.idle_wait_ms,
         r.bounded,
         r.ok,
         r.rows,
         CASE WHEN r.rehearsed_at <= statement_timestamp() + interval '5 minutes'
              THEN greatest(0, floor(extract(epoch FROM statement_timestamp() - r.rehearsed_at)))::bigint
         END AS age_seconds,
         r.rehearsed_at,
         r.actor,
         r.clone,
         r.tables,
         r.scale
  FROM pipestate.rehearsal r CROSS JOIN LATERAL jsonb_object_keys(r.files) AS f (revision)
  WHERE r.kind = 'rehearse' AND isfinite(r.rehearsed_at)
    AND (r.database IS NULL OR r.database = (SELECT pipestate.this_database()))
    AND r.files <@ nullif(current_setting('pipestate.files', true), '')::jsonb
  ORDER BY f.revision, r.rehearsed_at DESC, r.id DESC;
  CREATE OR REPLACE VIEW pipestate.compat AS
  SELECT DISTINCT ON (f.revision)
         f.revision,
         r.statements,
         r.broken,
         r.changed,
         r.unprepared,
         r.ok,
         CASE WHEN r.rehearsed_at <= statement_timestamp() + interval '5 minutes'
              THEN greatest(0, floor(extract(epoch FROM statement_timestamp() - r.rehearsed_at)))::bigint
         END AS age_seconds,
         r.rehearsed_at,
         r.actor,
         r.clone
  FROM pipestate.rehearsal r CROSS JOIN LATERAL jsonb_object_keys(r.files) AS f (revision)
  WHERE r.kind = 'compat' AND isfinite(r.rehearsed_at)
    AND (r.database IS NULL OR r.database = (SELECT pipestate.this_database()))
    AND r.files <@ nullif(current_setting('pipestate.files', true), '')::jsonb
  ORDER BY f.revision, r.rehearsed_at DESC, r.id DESC;
  CREATE OR REPLACE VIEW pipestate.drift AS
  WITH last AS (
    SELECT r.recorded_at, r.revision, r.method, r.objects FROM pipestate.schema_record r ORDER BY r.id DESC LIMIT 1
  ), recorded AS (
    SELECT each.value ->> 0 AS schema, each.value ->> 1 AS kind, each.value ->> 2 AS name, each.value ->> 3 AS digest
    FROM last CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(last.objects) AS each
  ), now AS (
    SELECT d.schema, d.kind, d.name, left(encode(sha256(convert_to(d.definition, 'UTF8')), 'hex'), 16) AS digest
    FROM pipestate.schema_definitions() AS d WHERE NOT d.left_out
  ), difference AS (
    SELECT kind, schema, name,
           CASE WHEN r.digest IS NULL THEN 'added' WHEN n.digest IS NULL THEN 'removed' ELSE 'changed' END AS change
    FROM recorded r FULL JOIN now n USING (schema, kind, name)
    WHERE r.digest IS DISTINCT FROM n.digest
  )
  SELECT d.kind, d.schema, d.name, d.change, last.revision, last.recorded_at
  FROM last CROSS JOIN difference d
  WHERE last.method = pipestate.schema_method()
  UNION ALL
  SELECT 'server', '', last.method || ' → ' || pipestate.schema_method(), 'changed', last.revision, last.recorded_at
  FROM last
  WHERE last.method <> pipestate.schema_method();
  CREATE OR REPLACE VIEW pipestate.disuse AS
  WITH contract AS (
    SELECT DISTINCT ON (f.revision) f.revision, r.watch
    FROM pipestate.rehearsal r CROSS JOIN LATERAL jsonb_object_keys(r.files) AS f (revision)
    WHERE r.kind = 'compat' AND isfinite(r.rehearsed_at)
      AND (r.database IS NULL OR r.database = (SELECT pipestate.this_database()))
      AND r.files <@ nullif(current_setting('pipestate.files', true), '')::jsonb
    ORDER BY f.revision, r.rehearsed_at DESC, r.id DESC
  ), seen AS (
    SELECT c.revision, o.id, o.observed_at, o.server, o.started_at, o.stats_reset, o.evictions, o.standbys, o.fault, o.calls,
           (SELECT coalesce(jsonb_object_agg(e.key, e.value - 'query'), '{}') FROM jsonb_each(o.calls) AS e
            WHERE (c.watch -> 'harmless' @> jsonb_build_array(e.value -> 'id')) IS NOT TRUE) AS used
    FROM contract c JOIN pipestate.statement_calls o ON o.contract = c.watch ->> 'digest'
    WHERE isfinite(o.observed_at) AND o.database = (SELECT pipestate.this_database())
  ), compared AS (
    SELECT s.*, lag(s.id) OVER past AS id_before, lag(s.observed_at) OVER past AS observed_before,
           lag(s.server) OVER past AS server_before, lag(s.stats_reset) OVER past AS reset_before,
           lag(s.evictions) OVER past AS evictions_before, lag(s.fault) OVER past AS fault_before,
           lag(s.used) OVER past AS used_before, lag(s.calls) OVER past AS calls_before,
           lag(s.started_at) OVER past AS started_before
    FROM seen s WINDOW past AS (PARTITION BY s.revision ORDER BY s.id)
  ), judged AS (
    SELECT c.*,
           CASE WHEN c.fault IS NOT NULL THEN c.fault
                WHEN c.id_before IS NULL THEN 'the first observation of this contract'
                WHEN c.fault_before IS NOT NULL THEN 'before it: ' || c.fault_before
                WHEN c.server IS DISTINCT FROM c.server_before
                  THEN concat('another server or version: ', c.server, ', before ', c.server_before)
                WHEN c.stats_reset IS DISTINCT FROM c.reset_before THEN 'the statistics were reset, or lost in a crash'
                WHEN c.evictions IS DISTINCT FROM c.evictions_before
                  THEN 'the server evicted statements: raise pg_stat_statements.max'
                WHEN c.started_at IS DISTINCT FROM c.started_before AND NOT EXISTS (
                       SELECT FROM jsonb_each(c.calls) AS e WHERE c.calls_before -> e.key = e.value)
                  THEN 'the server restarted, and no statement shows that it kept its statistics'
                WHEN c.observed_at NOT BETWEEN c.observed_before AND c.observed_before + interval '48 hours'
                  THEN 'no observation for more than 48 hours'
                WHEN c.used <> c.used_before THEN coalesce(
                  (SELECT 'it ran: ' || (e.value ->> 'query') FROM jsonb_each(c.calls) AS e
                   WHERE c.used -> e.key IS DISTINCT FROM c.used_before -> e.key ORDER BY e.key LIMIT 1),
                  'the statistics of a statement were removed')
           END AS begins
    FROM compared c
  ), streak AS (
    SELECT j.*,
           max(j.id) FILTER (WHERE j.begins IS NOT NULL) OVER (PARTITION BY j.revision) AS first_id,
           max(j.id) OVER (PARTITION BY j.revision) AS last_id
    FROM judged j
  ), summed AS (
    SELECT s.revision, count(*) AS observations, max(s.standbys) AS standbys, min(s.observed_at) AS since,
           max(s.observed_at) AS last_at, max(s.begins) AS begins,
           max(s.fault) FILTER (WHERE s.id = s.last_id) AS fault
    FROM streak s WHERE s.id >= s.first_id GROUP BY s.revision
  ), doubted AS (
    SELECT c.revision, c.watch, s.observations, s.standbys, s.since, s.last_at, s.begins,
           CASE WHEN c.watch IS NULL THEN 'compat found no table to watch, or a revision failed on the clone'
                WHEN s.last_at IS NULL THEN 'no observation of this contract yet: pipestate observe'
                WHEN s.fault IS NOT NULL THEN s.fault
                WHEN s.last_at < statement_timestamp() - interval '48 hours' THEN 'no observation for more than 48 hours'
                WHEN s.last_at > statement_timestamp() + interval '5 minutes' THEN 'an observation lies in the future'
           END AS doubt
    FROM contract c LEFT JOIN summed s ON s.revision = c.revision
  )
  SELECT d.revision,
         CASE WHEN d.doubt IS NULL
              THEN round((floor(extract(epoch FROM d.last_at - d.since))::bigint * 100 / 86400) / 100.0, 2)
         END AS days_unused,
         CASE WHEN d.doubt IS NULL THEN d.since END AS unused_since,
         coalesce(d.doubt, d.begins) AS why,
         coalesce(d.observations, 0) AS observations,
         d.last_at AS last_observed_at,
         d.standbys,
         coalesce(jsonb_array_length(d.watch -> 'broken'), 0) AS statements
  FROM doubted d;
  CREATE OR REPLACE VIEW pipestate.running_release AS
  SELECT a.pid,
         a.usename::text AS role,
         a.application_name,
         (regexp_match(a.application_name, '^([^/]+)/'))[1] AS application,
         string_to_array((regexp_match(a.application_name, '^[^/]+/v?([0-9]{1,18}([.][0-9]{1,18})*)'))[1], '.')::bigint[] AS release,
         a.backend_start AS connected_at
  FROM pg_catalog.pg_stat_activity a
  WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid();
  PERFORM set_config('search_path', path_before, true);
END $pipestate$;

CALL pg_temp.pipestate_end_revision('0002', 'upgrade', 'refuse', NULL, '', false);

CALL pg_temp.pipestate_record('upgrade', '0002', 'The ledger: what was verified, signed off and observed.', 'f942099e332e5ceced3bc69ed217afab43f485230dd2d719e5ea8836fe42f8a4', '"pipestate_alembic_version"', 'a person', NULL);

UPDATE pipestate_alembic_version SET version_num='0002' WHERE pipestate_alembic_version.version_num = '0001';

COMMIT;

DO $record$
DECLARE
  path CONSTANT text := pg_catalog.current_setting('search_path');
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  IF to_regclass('pipestate.schema_record') IS NOT NULL AND NOT EXISTS (
    SELECT o.what, pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me
    FROM (SELECT concat('the schema ', n.nspname) AS what, n.nspowner AS owner
    FROM pg_namespace n WHERE n.nspname IN ('pipestate', 'pipestate_archive')
    UNION ALL
    SELECT concat(n.nspname, '.', c.relname), c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'pipestate' AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
    UNION ALL
    SELECT concat(n.nspname, '.', p.proname, '()'), p.proowner FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname IN ('pipestate', 'pipestate_archive')) AS o
    WHERE NOT ((o.owner = to_regrole(quote_ident(current_user))::oid
      OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_database d WHERE d.datname = current_database() AND d.datdba = o.owner)
      OR (NOT current_setting('is_superuser') = 'on' AND (pg_has_role(o.owner, 'USAGE') OR pg_has_role(o.owner,
        CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END)))
      OR EXISTS (SELECT FROM pg_class c WHERE c.relowner = o.owner AND c.oid = to_regclass(nullif(current_setting('pipestate.version_table', true), ''))))) LIMIT 1) THEN
    CALL pipestate.record_schema('0002', 'a person');
  END IF;
  PERFORM set_config('search_path', path, true);
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'the schema was not recorded, so `pipestate drift` compares with an older record: %', SQLERRM;
END $record$;

