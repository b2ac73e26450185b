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
  INSERT INTO pg_temp.pipestate_open VALUES ('0001'), ('0001'); END $open$;

CALL pg_temp.pipestate_begin_revision('0001');

-- The database is at revision base, and no other migration is running
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision base, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

-- the registry of created objects, and the soft drop
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
  SELECT substring(p.prosrc, '[0-9]+[.0-9a-f]*') INTO todo FROM pg_proc p
   WHERE p.pronamespace = to_regnamespace('pipestate') AND p.proname = 'version';
  IF split_part(todo, '.', 1)::integer > 1 THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the functions of the ledger are newer (version %s) than this pipestate (version 1.ec6251729d4f): use the pipestate that installed them', todo);
  END IF;
  -- A routine whose arguments have changed is another one to the server. One that a view calls is replaced.
  FOR todo IN SELECT format('DROP ROUTINE %s', p.oid::regprocedure) FROM pg_proc p
               WHERE p.pronamespace = to_regnamespace('pipestate') AND p.proname IN ('add_checks', 'add_columns', 'add_to_partitions', 'as_type', 'attach_partition_indexes', 'base_type', 'batch_statements', 'begin_gate', 'begin_not_null', 'begin_restore', 'begin_revision', 'begin_table_restore', 'beside', 'bring_back_columns', 'bring_back_table', 'catalogue', 'columns_fault', 'count_rows', 'count_values', 'create_table', 'drop_columns', 'drop_columns_for_good', 'drop_constraint', 'drop_indexes', 'drop_table', 'drop_tables_for_good', 'element_type', 'emptied', 'end_fill', 'end_not_null', 'end_restore', 'end_revision', 'end_step', 'evaluate', 'evaluate_again', 'evaluate_check', 'execute', 'explain_error', 'family', 'fill', 'fill_part', 'finish_index', 'fire_deferred', 'first_row', 'foreign_keys', 'forget', 'gate_state', 'gated', 'go_on', 'grant_migrating', 'grant_recording', 'has_columns', 'has_duplicates', 'has_rows', 'held_before', 'hidden_relation', 'impostors', 'index_columns', 'index_state', 'index_steps', 'indexes_to_build', 'is_locked', 'is_nullable', 'is_of_this_transaction', 'is_ours', 'is_partitioned', 'is_true', 'judge_gate', 'kept_in', 'lacks_constraint', 'lacks_default', 'lacks_foreign_key', 'leaves_before', 'lift_timeout', 'listed_columns', 'lock_relations', 'lock_tables', 'loses', 'losses', 'may_record', 'modified_since', 'note_columns', 'note_copies', 'numbers_of', 'other_foreign_key', 'others', 'parents', 'partition_index', 'partition_index_steps', 'partition_key_steps', 'parts_to_fill', 'pass_gate', 'prepare_index', 'prepare_partitioned_index', 'publications_of', 'purge', 'read_only', 'readers_of', 'record_gate', 'record_revision', 'record_schema', 'referenced', 'refuse', 'refuse_found', 'refuse_if', 'refuse_rows', 'rejects_null', 'remember', 'removed_with', 'rename_children', 'renamed_with', 'replace_comment', 'require_backup', 'require_gate', 'require_others', 'require_part', 'require_restorable', 'require_session', 'require_shape', 'require_start', 'require_step', 'require_token', 'require_valid', 'require_version', 'resolve', 'restore_columns', 'restore_comment', 'restore_removed', 'restore_table', 'restored_with', 'rights_fault', 'run_if', 'running_writers', 'safe_path', 'say', 'schema_definitions', 'schema_method', 'schemas_of', 'set_timeout_back', 'settle_gate', 'soft_drop_columns', 'soft_drop_tables', 'soft_dropped', 'spelled', 'tables_fault', 'tell', 'this_database', 'trigger_names', 'unhide_names', 'update_in_batches', 'use_timestamptz', 'validate_constraints', 'validate_restored', 'value_of', 'version', 'versions', 'warn', 'with_hidden_definitions', 'written_columns', 'written_since', 'written_tables')
                 AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.refobjid = p.oid
                                 AND d.refclassid = 'pg_proc'::regclass) LOOP
    EXECUTE todo;
  END LOOP;
  PERFORM set_config('check_function_bodies', 'off', true);  -- they call each other
CREATE OR REPLACE FUNCTION pipestate.batch_statements(
  the_table text, the_key text[], the_size integer, the_work text, the_condition text, path text, OUT next_key text, OUT work text) RETURNS record
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  keys text[] := the_key;
  names text;        -- {t}.a, {t}.b
  backwards text;
  texts text;
  after_last text;
  up_to_next text;
BEGIN
  IF relation IS NULL OR NOT pipestate.is_true(the_condition, path) THEN RETURN; END IF;
  IF keys = '{}' THEN
    keys := ARRAY(SELECT a.attname FROM pg_index i CROSS JOIN unnest(i.indkey::smallint[]) WITH ORDINALITY AS k (attnum, n)
                  JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = k.attnum
                  WHERE i.indrelid = relation AND i.indisprimary AND k.n <= i.indnkeyatts ORDER BY k.n);
  END IF;
  SELECT string_agg(format('{t}.%I', k.name), ', ' ORDER BY k.n),
         string_agg(format('{t}.%I DESC', k.name), ', ' ORDER BY k.n),
         string_agg(format('{t}.%I::text', k.name), ', ' ORDER BY k.n),
         string_agg(format('$1[%s]::%s', k.n, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY k.n),
         string_agg(format('$2[%s]::%s', k.n, format_type(a.atttypid, a.atttypmod)), ', ' ORDER BY k.n)
    INTO names, backwards, texts, after_last, up_to_next
    FROM unnest(keys) WITH ORDINALITY AS k (name, n) JOIN pg_attribute a ON a.attrelid = relation AND a.attname = k.name;
  IF names IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s has no primary key, so its rows cannot be split into batches: name unique columns', the_table);
  END IF;
  after_last := format('($1 IS NULL OR ROW(%s) > ROW(%s))', names, after_last);
  up_to_next := format('(%s AND ROW(%s) <= ROW(%s))', after_last, names, up_to_next);
  -- Not max(), which some types do not have.
  next_key := replace(format('SELECT ARRAY[%s] FROM (SELECT * FROM %s AS {t} WHERE (%s) IS NOT NULL AND %s '
    'ORDER BY %3$s LIMIT %5$s) AS {t} ORDER BY %6$s LIMIT 1', texts, relation, names, after_last, the_size, backwards), '{t}', 's');
  work := replace(replace(the_work, '{range}', replace(up_to_next, '{t}', the_table)), '{range s}', replace(up_to_next, '{t}', 's'));
END $$;
CREATE OR REPLACE PROCEDURE pipestate.update_in_batches(
  the_table text, the_key text[], the_size integer, the_work text, the_condition text DEFAULT 'true', the_part text DEFAULT NULL,
  path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql AS $$
DECLARE
  statements record;
  last_key text[];
  next_key text[];
BEGIN
  CALL pipestate.require_part(the_part);
  SELECT * INTO statements FROM pipestate.batch_statements(the_table, the_key, the_size, the_work, the_condition, path);
  LOOP
    EXIT WHEN statements.next_key IS NULL;
    EXECUTE statements.next_key INTO next_key USING last_key;
    EXIT WHEN next_key IS NULL;
    EXECUTE statements.work USING last_key, next_key;
    COMMIT;
    last_key := next_key;
  END LOOP;
END $$;
CREATE OR REPLACE FUNCTION pipestate.catalogue(schemas text[] DEFAULT NULL) RETURNS TABLE (oid bigint, kind text, schema text, name text,
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
CREATE OR REPLACE FUNCTION pipestate.read_only(query text, path text, files text) RETURNS json
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  answer json;
  is_read boolean := false;
BEGIN
  BEGIN
    PERFORM set_config('pipestate.files', files, true),
            set_config('transaction_read_only', 'on', true),
            set_config('row_security', 'off', true),
            set_config('TimeZone', 'UTC', true),
            set_config('standard_conforming_strings', 'on', true),
            set_config('DateStyle', 'ISO, MDY', true),
            set_config('IntervalStyle', 'postgres', true),
            set_config('transform_null_equals', 'off', true),
            set_config('array_nulls', 'on', true),
            set_config('bytea_output', 'hex', true),
            set_config('extra_float_digits', '1', true),
            set_config('quote_all_identifiers', 'off', true),
            set_config('lock_timeout', '10s', true),
            set_config('constraint_exclusion', 'on', true),
            set_config('jit', 'off', true),
            set_config('search_path', path, true);
    EXECUTE query INTO answer;
    is_read := true;
    RAISE EXCEPTION USING ERRCODE = 'PSTRO';
  EXCEPTION WHEN SQLSTATE 'PSTRO' THEN
    IF NOT is_read THEN
      RAISE EXCEPTION 'the query raised an error of its own: PSTRO';
    END IF;
  END;
  RETURN answer;
END $$;
CREATE OR REPLACE FUNCTION pipestate.is_nullable(
  the_table text, the_columns text[], path text DEFAULT current_setting('search_path')) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = pipestate.resolve(the_table, path)
                 AND a.attname = ANY (the_columns) AND NOT a.attnotnull AND NOT a.attisdropped)
$$;
CREATE OR REPLACE FUNCTION pipestate.has_columns(the_table text, the_columns text[], but_none_of text[], path text DEFAULT current_setting('search_path')) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(array_agg(a.attname::text) @> the_columns AND NOT array_agg(a.attname::text) && but_none_of, false)
    FROM pg_attribute a WHERE a.attrelid = pipestate.resolve(the_table, path) AND NOT a.attisdropped
$$;
CREATE OR REPLACE FUNCTION pipestate.lacks_default(the_table text, the_column text, path text DEFAULT current_setting('search_path')) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = pipestate.resolve(the_table, path)
                 AND a.attname = the_column AND NOT a.atthasdef AND NOT a.attnotnull)
$$;
CREATE OR REPLACE PROCEDURE pipestate.add_columns(
  the_table text, the_columns json, the_revision text DEFAULT NULL,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  wanted record;
  todo text;
BEGIN
  IF the_revision IS NOT NULL THEN
    CALL pipestate.bring_back_columns(the_table, the_revision, the_timeout_ms, the_patience_s, path);
  END IF;
  FOR wanted IN
    SELECT f.must_hold, string_agg(concat(a.attname, ' as ', format_type(a.atttypid, a.atttypmod)), ', ') AS wrong
    FROM json_each_text(the_columns) AS d (name, definition)
    JOIN (VALUES ('integers', '^(integer|bigint|smallint)'), ('text', '^(varchar|text|char)'), ('booleans', '^boolean'),
                 ('times', '^timestamp')) AS f (must_hold, pattern) ON lower(d.definition) ~ f.pattern
    JOIN pg_attribute a ON a.attrelid = relation AND a.attname = d.name AND NOT a.attisdropped
    JOIN pg_type t ON t.oid = a.atttypid
    WHERE NOT CASE f.must_hold WHEN 'integers' THEN t.typname IN ('int2', 'int4', 'int8')
                   WHEN 'text' THEN t.typcategory IN ('S', 'E') WHEN 'booleans' THEN t.typname = 'bool'
                   ELSE t.typname IN ('timestamp', 'timestamptz') END
    GROUP BY f.must_hold LIMIT 1
  LOOP
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      '%s has %s, but that must hold %s: rename it or change its type, then run the same again', the_table, wanted.wrong, wanted.must_hold);
  END LOOP;
  FOR wanted IN
    SELECT d.name, a.attname IS NULL AS is_missing, CASE
             WHEN a.attname IS NULL THEN format('ADD COLUMN IF NOT EXISTS %I %s', d.name, d.definition)
             WHEN NOT a.atthasdef AND d.definition ~ ' DEFAULT ' AND d.definition !~ ' GENERATED ' THEN format('ALTER COLUMN %I SET DEFAULT %s', d.name,
               regexp_replace(d.definition, '^.*? DEFAULT (.*?)( NOT NULL)?$', '\1')) END AS action
    FROM json_each_text(the_columns) WITH ORDINALITY AS d (name, definition, n)
    LEFT JOIN pg_attribute a ON a.attrelid = relation AND a.attname = d.name AND NOT a.attisdropped
    ORDER BY d.n
  LOOP
    CONTINUE WHEN wanted.action IS NULL;
    todo := concat_ws(', ', todo, wanted.action);
    IF wanted.is_missing THEN
      CALL pipestate.remember('column', concat(the_table, '.', wanted.name), the_revision);
    END IF;
  END LOOP;
  IF todo IS NULL THEN RETURN; END IF;
  CALL pipestate.lock_relations(ARRAY[relation], the_timeout_ms, the_patience_s, path);
  PERFORM pipestate.execute(format('ALTER TABLE %s %s', the_table, todo), path);
END $$;
CREATE OR REPLACE PROCEDURE pipestate.drop_columns(
  the_table text, the_columns text[], the_revision text DEFAULT NULL,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  is_registered CONSTANT boolean := the_revision IS NOT NULL;
  ours CONSTANT text[] := ARRAY(
    SELECT a.attname FROM pg_attribute a
     WHERE a.attrelid = relation AND a.attname = ANY (the_columns) AND NOT a.attisdropped
       AND pipestate.is_ours('column', concat(the_table, '.', a.attname), is_registered));
  name text;
BEGIN
  IF cardinality(ours) > 0 THEN
    CALL pipestate.lock_relations(ARRAY[relation], the_timeout_ms, the_patience_s, path);
    IF is_registered AND pipestate.is_true(format('EXISTS (SELECT FROM %s)', the_table), path) THEN
      CALL pipestate.soft_drop_columns(the_revision, NULL, the_table, relation, ours, '{}', '{}', false);
    ELSE
      PERFORM pipestate.execute(format('ALTER TABLE %s %s', the_table,
        (SELECT string_agg(format('DROP COLUMN %I', c), ', ') FROM unnest(ours) AS c)), path);
    END IF;
  END IF;
  FOREACH name IN ARRAY the_columns LOOP
    CALL pipestate.forget('column', concat(the_table, '.', name), is_registered);
  END LOOP;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.use_timestamptz(
  the_table text, the_columns text[], the_zone text, the_indexes text[] DEFAULT '{}',
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  todo text := (SELECT string_agg(format('ALTER COLUMN %I TYPE timestamptz', a.attname), ', ')
                FROM pg_attribute a WHERE a.attrelid = relation
                AND a.atttypid = 'timestamp'::regtype AND a.attname = ANY (the_columns) AND NOT a.attisdropped);
  name text;
BEGIN
  IF todo IS NULL THEN RETURN; END IF;
  CALL pipestate.lock_relations(ARRAY[relation], the_timeout_ms, the_patience_s, path);
  FOREACH name IN ARRAY the_indexes LOOP
    PERFORM pipestate.execute(format('DROP INDEX IF EXISTS %s', name), path);
  END LOOP;
  PERFORM set_config('TimeZone', the_zone, true);
  PERFORM pipestate.execute(format('ALTER TABLE %s %s', the_table, todo), path);
  PERFORM set_config('TimeZone', 'UTC', true);
END $$;
CREATE OR REPLACE PROCEDURE pipestate.begin_not_null(
  the_table text, the_rule text, the_columns text[],
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT pipestate.is_nullable(the_table, the_columns, path) OR NOT pipestate.lacks_constraint(the_table, the_rule, path) THEN
    RETURN;
  END IF;
  CALL pipestate.lock_relations(ARRAY[pipestate.resolve(the_table, path)], the_timeout_ms, the_patience_s, path);
  PERFORM pipestate.execute(format('ALTER TABLE %s ADD CONSTRAINT %I CHECK (%s) NOT VALID', the_table, the_rule,
    (SELECT string_agg(format('%I IS NOT NULL', c), ' AND ') FROM unnest(the_columns) AS c)), path);
END $$;
CREATE OR REPLACE PROCEDURE pipestate.end_not_null(
  the_table text, the_rule text, the_columns text[],
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  has_rule boolean := NOT pipestate.lacks_constraint(the_table, the_rule, path);
BEGIN
  IF NOT pipestate.is_nullable(the_table, the_columns, path) AND NOT has_rule THEN RETURN; END IF;
  CALL pipestate.lock_relations(ARRAY[pipestate.resolve(the_table, path)], the_timeout_ms, the_patience_s, path);
  PERFORM pipestate.execute(format('ALTER TABLE %s %s', the_table,
    (SELECT string_agg(format('ALTER COLUMN %I SET NOT NULL', c), ', ') FROM unnest(the_columns) AS c)), path);
  IF has_rule THEN PERFORM pipestate.execute(format('ALTER TABLE %s DROP CONSTRAINT %I', the_table, the_rule), path); END IF;
END $$;
CREATE OR REPLACE FUNCTION pipestate.lacks_constraint(
  the_table text, the_name text, path text DEFAULT current_setting('search_path')) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT NOT EXISTS (SELECT FROM pg_constraint k
                     WHERE k.conrelid = pipestate.resolve(the_table, path) AND k.conname = the_name)
$$;
CREATE OR REPLACE FUNCTION pipestate.lacks_foreign_key(
  the_table text, the_column text, the_target text, the_action text, path text DEFAULT current_setting('search_path')) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT NOT EXISTS (SELECT FROM pg_constraint k
                     JOIN pg_attribute a ON a.attrelid = k.conrelid AND k.conkey = ARRAY[a.attnum]
                     WHERE k.conrelid = pipestate.resolve(the_table, path) AND k.contype = 'f' AND a.attname = the_column
                     AND k.confrelid = pipestate.resolve(the_target, path) AND k.confdeltype::text = the_action)
$$;
CREATE OR REPLACE PROCEDURE pipestate.add_checks(
  the_table text, the_checks json, the_revision text DEFAULT NULL,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wanted record;
  is_locked boolean := false;
BEGIN
  FOR wanted IN SELECT key, value FROM json_each_text(the_checks) WHERE pipestate.lacks_constraint(the_table, key, path) LOOP
    CALL pipestate.refuse_rows(the_table, format('NOT (%s)', wanted.value),
      format('would break the rule %s (%s)', wanted.key, wanted.value), path => path);
  END LOOP;
  FOR wanted IN SELECT key, value FROM json_each_text(the_checks) WHERE pipestate.lacks_constraint(the_table, key, path) LOOP
    IF NOT is_locked THEN
      CALL pipestate.lock_relations(ARRAY[pipestate.resolve(the_table, path)], the_timeout_ms, the_patience_s, path);
      is_locked := true;
    END IF;
    PERFORM pipestate.execute(format('ALTER TABLE %s ADD CONSTRAINT %I CHECK (%s) NOT VALID', the_table, wanted.key, wanted.value), path);
    CALL pipestate.remember('constraint', concat(the_table, '.', wanted.key), the_revision);
  END LOOP;
END $$;
CREATE OR REPLACE FUNCTION pipestate.other_foreign_key(
  the_table text, the_name text, the_target text, the_action text, path text DEFAULT current_setting('search_path')) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k
   WHERE k.conrelid = pipestate.resolve(the_table, path) AND k.contype = 'f' AND k.conname = the_name
     AND (k.confrelid <> pipestate.resolve(the_target, path) OR k.confdeltype::text <> the_action)
$$;
CREATE OR REPLACE PROCEDURE pipestate.add_to_partitions(
  the_table text, the_name text, the_definition text, the_condition text, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  leaf regclass;
BEGIN
  IF NOT pipestate.is_true(the_condition, path) THEN RETURN; END IF;
  FOR leaf IN
    SELECT t.relid FROM pg_partition_tree(pipestate.resolve(the_table, path)) t
     WHERE t.isleaf AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conrelid = t.relid AND k.conname = the_name)
  LOOP
    PERFORM pipestate.execute(format('ALTER TABLE %s ADD CONSTRAINT %I %s NOT VALID', leaf, the_name, the_definition), path);
  END LOOP;
END $$;
CREATE OR REPLACE FUNCTION pipestate.partition_key_steps(
  the_table text, the_name text, the_condition text, path text DEFAULT current_setting('search_path')) RETURNS SETOF text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT format('ALTER TABLE %s VALIDATE CONSTRAINT %I', pipestate.spelled(t.relid, path), k.conname)
    FROM pg_partition_tree(pipestate.resolve(the_table, path)) t JOIN pg_constraint k ON k.conrelid = t.relid
   WHERE t.isleaf AND k.conname = the_name AND NOT k.convalidated AND pipestate.is_true(the_condition, path)
$$;
CREATE OR REPLACE PROCEDURE pipestate.validate_constraints(
  the_table text, the_names text[], the_part text DEFAULT NULL, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  todo text := (SELECT string_agg(format('VALIDATE CONSTRAINT %I', k.conname), ', ') FROM pg_constraint k
                WHERE k.conrelid = pipestate.resolve(the_table, path) AND k.conname = ANY (the_names) AND NOT k.convalidated);
BEGIN
  CALL pipestate.require_part(the_part);
  IF todo IS NOT NULL THEN PERFORM pipestate.execute(format('ALTER TABLE %s %s', the_table, todo), path); END IF;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.require_valid(
  the_table text, the_names text[], are_required boolean, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  fault text := (SELECT string_agg(n, ', ') FROM unnest(the_names) AS n
                 LEFT JOIN pg_constraint k ON k.conrelid = pipestate.resolve(the_table, path) AND k.conname = n
                 WHERE NOT coalesce(k.convalidated, NOT are_required));
BEGIN
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('%s of %s is not valid: see the error above', fault, the_table);
  END IF;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.drop_constraint(
  the_table text, the_name text, is_registered boolean DEFAULT true,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  entry CONSTANT text := concat(the_table, '.', the_name);
BEGIN
  CALL pipestate.lock_relations(relation || pipestate.parents(relation), the_timeout_ms, the_patience_s, path);
  IF relation IS NOT NULL AND pipestate.is_ours('constraint', entry, is_registered) THEN
    PERFORM pipestate.execute(format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', the_table, the_name), path);
  END IF;
  CALL pipestate.forget('constraint', entry, is_registered);
END $$;
CREATE OR REPLACE FUNCTION pipestate.explain_error(said text) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((SELECT regexp_replace(said, e.pattern, e.sentence) FROM (VALUES
    ('^column the_result[.](\S+) does not exist.*$', 'the query returns no column \1'),
    ('^no such column: the_result[.](\S+)$', 'the query returns no column \1'),
    ('^column reference "rows" is ambiguous.*$', '`rows` is the number of rows, and the query returns a column of that name: rename it'),
    ('^ambiguous column name: rows$', '`rows` is the number of rows, and the query returns a column of that name: rename it')
  ) AS e (pattern, sentence) WHERE said ~ e.pattern LIMIT 1), said)
$$;
CREATE OR REPLACE FUNCTION pipestate.first_row(query text, path text, files text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN left(pipestate.read_only(format(E'SELECT pg_catalog.to_json(f) FROM (\n%s\n) AS f LIMIT 1', query), path, files)::text, 200);
EXCEPTION WHEN OTHERS THEN
  RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION pipestate.evaluate(task jsonb, path text, files text) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  began timestamptz := clock_timestamp();
  schemas text[] := ARRAY(SELECT json_array_elements_text(pipestate.read_only('SELECT pg_catalog.to_json(pg_catalog.current_schemas(false))', path, '')));
  found text := pipestate.impostors(schemas, task ->> 'query');
  answer jsonb;
BEGIN
  BEGIN
    IF found IS NOT NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('it uses what another role has put on the search path in the place of others: %s. Drop that, or take its schema off the path', found);
    END IF;
    answer := pipestate.read_only(format(E'SELECT pg_catalog.to_json(v) FROM (\n%s\n) AS v',
      concat(split_part(task ->> 'frame', '{query}', 1), task ->> 'query', substr(task ->> 'frame',
        length(split_part(task ->> 'frame', '{query}', 1)) + length('{query}') + 1))), path, files);
    IF answer ->> 'outcome' = 'failed' AND (task ->> 'shows_rows')::boolean THEN
      answer := answer || jsonb_build_object('message', concat(answer ->> 'message', '; first: ' || pipestate.first_row(task ->> 'query', path, files)));
    END IF;
    answer := answer || jsonb_build_object('row', answer -> 'observed', 'observed', coalesce((answer ->> 'observed')::jsonb,
      jsonb_build_object('rows', answer -> 'rows')));
  EXCEPTION
    WHEN query_canceled THEN
      answer := jsonb_build_object('message', CASE WHEN extract(epoch FROM clock_timestamp() - began)
          < extract(epoch FROM current_setting('statement_timeout')::interval)
        THEN format('was cancelled by somebody after %s s: ask again', round(extract(epoch FROM clock_timestamp() - began)::numeric, 1))
        ELSE format('took longer than %s s: make the query faster, or give it more time (pipestate_timeout in alembic.ini)',
          extract(epoch FROM current_setting('statement_timeout')::interval)::float8) END);
    WHEN OTHERS THEN
      answer := jsonb_build_object('message', pipestate.explain_error(SQLERRM));
  END;
  RETURN jsonb_build_object('outcome', 'errored', 'observed', '{}'::jsonb) || answer
    || jsonb_build_object('check_id', task -> 'check_id', 'required', task -> 'required', 'level', task -> 'level',
      'source', task -> 'source', 'duration_ms', round(extract(epoch FROM clock_timestamp() - began)::numeric * 1000, 1));
END $$;
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
CREATE OR REPLACE FUNCTION pipestate.safe_path(path name[]) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT concat_ws(', ', 'pg_catalog', (SELECT string_agg(quote_ident(s.name::text), ', ' ORDER BY s.place)
    FROM unnest(path) WITH ORDINALITY AS s (name, place)
    WHERE s.name <> 'pg_catalog' AND NOT starts_with(s.name::text, 'pg_temp_')), 'pg_temp')
$$;
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
CREATE OR REPLACE FUNCTION pipestate.versions(version_table text, path text) RETURNS text[]
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(SELECT json_array_elements_text(pipestate.read_only(format('SELECT coalesce(pg_catalog.json_agg(v.version_num::text '
    'ORDER BY v.version_num::text COLLATE pg_catalog."C"), ''[]'') FROM %s AS v', version_table), path, '')))
$$;
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
CREATE OR REPLACE FUNCTION pipestate.is_locked(relation oid) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.granted
                 AND l.mode = 'AccessExclusiveLock' AND l.relation = $1
                 AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()))
$$;
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
CREATE OR REPLACE PROCEDURE pipestate.gated(revision text, step integer, VARIADIC lines text[])
LANGUAGE plpgsql AS $$
BEGIN
  CALL pipestate.require_step(revision, step);
  EXECUTE pg_catalog.array_to_string(lines, E'\n');
  CALL pipestate.end_step(revision, step);
END $$;
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
CREATE OR REPLACE PROCEDURE pipestate.require_step(revision text, step integer)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM revision
      OR (step > 1 AND current_setting('pipestate.step', true) IS DISTINCT FROM concat(revision, '/', step - 1)) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'the gate before this statement was not passed in this transaction, or an earlier statement has failed, so this statement does nothing';
  END IF;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.go_on(token text, version_table text, heads text[], path name[])
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pipestate.versions(version_table, array_to_string(ARRAY(SELECT quote_ident(s::text) FROM unnest('pg_catalog'::name || path) AS s
       WHERE NOT starts_with(s::text, 'pg_temp_')) || 'pg_temp'::text, ', ')) IS DISTINCT FROM heads THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'an earlier part of this script was not done, so this revision does nothing';
  END IF;
  PERFORM set_config('pipestate.gate', token, true), set_config('pipestate.others', '', true);
END $$;
CREATE OR REPLACE FUNCTION pipestate.impostors(schemas text[], query text) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $impostors$
-- Its tokens: comments and texts are left out; an operator ends before a sign. Some words stand for operators.
WITH token (name) AS (
  SELECT lower(t[1]) FROM regexp_matches(
    regexp_replace(query, E'--[^\n]*|/\\*([^*]|\\*[^/])*\\*/|''[^'']*''', ' ', 'g'), E'(\\w+|[-+*/<>=~!@#%^&|`?]+)', 'g') AS t
), used (name) AS (
  SELECT name FROM token UNION SELECT rtrim(name, '+-') FROM token
  UNION SELECT unnest(string_to_array(w.operators, ' ')) FROM token JOIN (VALUES
    ('between', '< <= > >='), ('case', '='), ('distinct', '='), ('ilike', '~~* !~~*'), ('in', '= <>'), ('like', '~~ !~~'),
    ('natural', '='), ('nullif', '='), ('similar', '~ !~'), ('using', '='), ('!=', '<>')) AS w (word, operators) ON w.word = token.name
), place AS (
  -- Who owns a schema may put anything there, but for a schema with this role's name, which "$user" finds.
  SELECT n.oid, n.nspname, s.number, CASE WHEN n.nspname <> current_user THEN n.nspowner END AS owner FROM unnest(schemas) WITH ORDINALITY AS s (name, number)
  JOIN pg_namespace n ON n.nspname = s.name AND n.nspname <> 'pg_catalog'
), found AS (
  SELECT p.proname AS name, p.oid::regprocedure::text AS what, p.proowner AS owner, place.owner AS place_owner
  FROM place JOIN pg_proc p ON p.pronamespace = place.oid AND p.oid >= 16384
  WHERE EXISTS (SELECT FROM pg_proc c WHERE c.proname = p.proname AND c.pronamespace = 11)
    AND NOT EXISTS (SELECT FROM pg_proc c WHERE c.proname = p.proname AND c.pronamespace = 11 AND c.proargtypes = p.proargtypes)
  UNION ALL
  SELECT o.oprname, 'operator ' || o.oid::regoperator::text, o.oprowner, place.owner
  FROM place JOIN pg_operator o ON o.oprnamespace = place.oid AND o.oid >= 16384
  WHERE EXISTS (SELECT FROM pg_operator c WHERE c.oprname = o.oprname AND c.oprnamespace = 11)
    AND NOT EXISTS (SELECT FROM pg_operator c WHERE c.oprname = o.oprname AND c.oprnamespace = 11
                    AND (c.oprleft, c.oprright) = (o.oprleft, o.oprright))
  UNION ALL
  SELECT c.relname, format('%I.%I', place.nspname, c.relname), c.relowner, place.owner
  FROM place JOIN pg_class c ON c.relnamespace = place.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
  WHERE EXISTS (SELECT FROM pg_class o JOIN place AS later ON later.oid = o.relnamespace
                WHERE o.relname = c.relname AND later.number > place.number)
     OR place.nspname = current_user
)
SELECT string_agg(found.what || ' of ' || r.rolname, ', ' ORDER BY found.what)
FROM found JOIN pg_roles r ON r.oid = found.owner
WHERE NOT r.rolsuper AND r.rolname <> current_user
  AND r.oid IS DISTINCT FROM found.place_owner
  AND r.oid <> (SELECT d.datdba FROM pg_database d WHERE d.datname = current_database())
  AND (current_setting('is_superuser') = 'on' OR NOT (pg_has_role(r.oid, 'USAGE') OR pg_has_role(r.oid,
        CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END)))
  AND (query IS NULL OR lower(found.name) IN (SELECT name FROM used))
$impostors$;
CREATE OR REPLACE FUNCTION pipestate.beside(relation regclass, name text) RETURNS regclass
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT to_regclass(format('%I.%I', n.nspname, name)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
   WHERE c.oid = relation AND name IS NOT NULL
$$;
CREATE OR REPLACE FUNCTION pipestate.index_state(
  the_index text, the_table text, the_definition text, is_unique boolean, the_needs text[], the_types text[], path text,
  OUT own regclass, OUT own_is_valid boolean, OUT own_is_other boolean, OUT spare_name text, OUT spare regclass,
  OUT spare_is_valid boolean, OUT is_wanted boolean, OUT is_partitioned boolean, OUT wanted text, OUT actual text) RETURNS record
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  types oid[];
  printed text;
  definition text := the_definition;
  spelling CONSTANT text := '::(character varying|[\w.]+)|[()\s]';
BEGIN
  is_partitioned := (SELECT c.relkind = 'p' FROM pg_class c WHERE c.oid = relation);
  spare_name := concat('pipestate_new_', CASE WHEN octet_length(the_index) <= 49 THEN the_index ELSE md5(the_index) END);
  own := pipestate.beside(relation, the_index);
  spare := pipestate.beside(relation, spare_name);
  PERFORM set_config('search_path', path, true);  -- types are named and definitions printed as on the project's
  types := the_types::pg_catalog.regtype[];
  actual := pg_catalog.pg_get_indexdef(own);
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  printed := split_part(actual, ' USING btree ', 2);
  IF strpos(definition, '''') > 0 THEN  -- casts and parentheses depend on the type of an adopted column
    printed := regexp_replace(printed, spelling, '', 'g');
    definition := regexp_replace(definition, spelling, '', 'g');
  END IF;
  own_is_valid := EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = own AND i.indisvalid AND i.indisready);
  own_is_other := EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = own AND (i.indisunique <> is_unique OR printed <> definition));
  spare_is_valid := EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = spare AND i.indisvalid AND i.indisready);
  is_wanted := (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = ANY (the_needs) AND NOT a.attisdropped
                AND (types = '{}' OR a.atttypid = ANY (types))) = cardinality(the_needs);
  wanted := format('CREATE %sINDEX %I ON %s %s', CASE WHEN is_unique THEN 'UNIQUE ' ELSE '' END, the_index, the_table, the_definition);
  actual := coalesce(actual, 'no index');
END $$;
CREATE OR REPLACE PROCEDURE pipestate.prepare_index(
  the_index text, the_table text, the_definition text, is_unique boolean DEFAULT false, the_needs text[] DEFAULT '{}',
  the_types text[] DEFAULT '{}', has_partition_steps boolean DEFAULT false, the_revision text DEFAULT NULL,
  path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state record;
  fault text;
BEGIN
  SELECT * INTO state FROM pipestate.index_state(the_index, the_table, the_definition, is_unique, the_needs, the_types, path);
  IF state.own IS NOT NULL AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = state.own
                                           AND i.indrelid = pipestate.resolve(the_table, path)) THEN
    fault := format('%s exists, but is no index of %s: %s; wanted: %s. Drop or rename it, then run the same again',
      the_index, the_table, state.actual, state.wanted);
  ELSIF state.is_partitioned AND NOT has_partition_steps THEN
    fault := format('%s is partitioned, and this script has no steps for that: run the revision online, '
      'or write the script with partitions=True', the_table);
  ELSIF state.own_is_other AND state.is_partitioned THEN
    fault := format('index %s exists with another definition: %s; wanted: %s. '
      '%s is partitioned, so it is not replaced: drop it, then run the same again', the_index, state.actual, state.wanted, the_table);
  ELSIF state.own_is_other AND EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = state.own) THEN
    fault := format('index %s exists with another definition: %s; wanted: %s. It belongs to a '
      'constraint, so it is not replaced: drop or rename the constraint, then run the same again', the_index, state.actual, state.wanted);
  END IF;
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = fault;
  END IF;
  PERFORM set_config('pipestate.new_index', CASE WHEN state.own_is_valid THEN '' ELSE the_index END, false);
  IF state.own IS NULL AND state.is_wanted THEN
    CALL pipestate.remember('index', the_index, the_revision);
  END IF;
END $$;
CREATE OR REPLACE FUNCTION pipestate.index_steps(
  the_index text, the_table text, the_definition text, is_unique boolean DEFAULT false, the_needs text[] DEFAULT '{}',
  the_types text[] DEFAULT '{}', path text DEFAULT current_setting('search_path')) RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state record;
  create_index CONSTANT text := CASE WHEN is_unique THEN 'CREATE UNIQUE INDEX' ELSE 'CREATE INDEX' END;
BEGIN
  SELECT * INTO state FROM pipestate.index_state(the_index, the_table, the_definition, is_unique, the_needs, the_types, path);
  IF state.own IS NOT NULL AND NOT state.own_is_valid THEN
    RETURN NEXT format('DROP INDEX CONCURRENTLY %s', state.own);
  END IF;
  IF state.spare IS NOT NULL AND NOT (state.spare_is_valid AND state.own_is_valid AND state.own_is_other) THEN
    RETURN NEXT format('DROP INDEX CONCURRENTLY %s', state.spare);
  END IF;
  IF NOT state.own_is_valid AND state.is_wanted THEN
    RETURN NEXT format('%s CONCURRENTLY %I ON %s %s', create_index, the_index, the_table, the_definition);
  ELSIF state.own_is_valid AND state.own_is_other AND NOT state.spare_is_valid THEN
    RETURN NEXT format('%s CONCURRENTLY %I ON %s %s', create_index, state.spare_name, the_table, the_definition);
  END IF;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.finish_index(
  the_index text, the_table text, the_definition text, is_unique boolean DEFAULT false, the_needs text[] DEFAULT '{}',
  the_types text[] DEFAULT '{}', the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60,
  path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  state record;
BEGIN
  SELECT * INTO state FROM pipestate.index_state(the_index, the_table, the_definition, is_unique, the_needs, the_types, path);
  IF (state.is_wanted AND NOT state.own_is_valid) OR (state.own_is_other AND NOT state.spare_is_valid
      AND current_setting('pipestate.new_index', true) IS DISTINCT FROM the_index) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
      'index %s was not built: see the error above, then run the same again', the_index);
  ELSIF state.own_is_other AND state.spare_is_valid THEN
    CALL pipestate.lock_relations(ARRAY[pipestate.resolve(the_table, path)], the_timeout_ms, the_patience_s, path);
    PERFORM pipestate.execute(format('DROP INDEX %s', state.own), path);
    PERFORM pipestate.execute(format('ALTER INDEX %s RENAME TO %I', state.spare, the_index), path);
    CALL pipestate.say(format('index %s had another definition (%s): rebuilt as %s', the_index, state.actual, state.wanted));
  ELSIF state.own_is_other THEN
    CALL pipestate.say(format('index %s: PostgreSQL prints its definition as %s; write it so, else the next run builds it again',
      the_index, split_part(state.actual, ' USING btree ', 2)));
  END IF;
END $$;
CREATE OR REPLACE FUNCTION pipestate.partition_index(relation regclass, the_index text) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN octet_length(n) <= 63 THEN n ELSE concat('part_', md5(n)) END
    FROM pg_class c, concat(c.relname, '_', the_index) AS n WHERE c.oid = relation
$$;
CREATE OR REPLACE FUNCTION pipestate.is_partitioned(the_table text, without_index text DEFAULT NULL, path text DEFAULT current_setting('search_path')) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_class c WHERE c.oid = pipestate.resolve(the_table, path) AND c.relkind = 'p'
                 AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = pipestate.beside(c.oid, without_index) AND i.indisvalid AND i.indisready))
$$;
CREATE OR REPLACE FUNCTION pipestate.partition_index_steps(
  the_table text, the_index text, the_create text, the_definition text, path text DEFAULT current_setting('search_path')) RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  leaf record;
BEGIN
  IF NOT pipestate.is_partitioned(the_table, the_index, path) THEN RETURN; END IF;
  FOR leaf IN
    SELECT pipestate.spelled(t.relid, path) AS name, n.name AS index_name, own
      FROM pg_partition_tree(relation) t JOIN pg_class c ON c.oid = t.relid,
           pipestate.partition_index(t.relid, the_index) AS n (name), pipestate.beside(t.relid, n.name) AS own
     WHERE t.isleaf AND c.relkind = 'r'
       AND NOT EXISTS (SELECT FROM pg_index x WHERE x.indexrelid = own AND x.indisvalid AND x.indisready)
       AND NOT EXISTS (SELECT FROM pg_partition_tree(pipestate.beside(relation, the_index)) i
                       JOIN pg_index x ON x.indexrelid = i.relid WHERE x.indrelid = t.relid)
  LOOP
    IF leaf.own IS NOT NULL THEN RETURN NEXT format('DROP INDEX CONCURRENTLY %s', leaf.own); END IF;
    RETURN NEXT format('%s CONCURRENTLY %I ON %s %s', the_create, leaf.index_name, leaf.name, the_definition);
  END LOOP;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.prepare_partitioned_index(
  the_table text, the_index text, the_create text, the_definition text, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  member record;
BEGIN
  IF NOT pipestate.is_partitioned(the_table, path => path) THEN RETURN; END IF;
  FOR member IN
    SELECT t.relid, c.relkind, pipestate.spelled(t.relid, path) AS name,
           CASE WHEN t.level = 0 THEN the_index ELSE pipestate.partition_index(t.relid, the_index) END AS index_name
    FROM pg_partition_tree(relation) t JOIN pg_class c ON c.oid = t.relid ORDER BY t.level
  LOOP
    IF member.relkind = 'f' THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s is a foreign table, which cannot be indexed here: detach it, or build the index of %s by hand', member.name, the_table);
    END IF;
    CONTINUE WHEN member.relkind <> 'p' OR pipestate.beside(member.relid, member.index_name) IS NOT NULL;
    BEGIN
      PERFORM pipestate.execute(format('%s %I ON ONLY %s %s', the_create, member.index_name, member.relid, the_definition), path);
    EXCEPTION WHEN feature_not_supported THEN
      IF the_create = 'CREATE INDEX' THEN RAISE; END IF;
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s is partitioned by %s, so PostgreSQL cannot keep %s %s unique over all partitions: add these columns to the '
        'index, or partition by columns of the index, then run the same again',
        member.name, pg_get_partkeydef(member.relid), the_index, the_definition);
    END;
  END LOOP;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.attach_partition_indexes(
  the_table text, the_index text, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  member record;
BEGIN
  IF NOT pipestate.is_partitioned(the_table, path => path) THEN RETURN; END IF;
  FOR member IN
    WITH tree AS (
      SELECT t.relid, t.parentrelid, t.level, pipestate.beside(t.relid,
               CASE WHEN t.level = 0 THEN the_index ELSE pipestate.partition_index(t.relid, the_index) END) AS own
      FROM pg_partition_tree(relation) t
    )
    SELECT tree.relid, tree.own, above.own AS above
    FROM tree JOIN tree above ON above.relid = tree.parentrelid ORDER BY tree.level DESC
  LOOP
    CONTINUE WHEN EXISTS (SELECT FROM pg_inherits i JOIN pg_index x ON x.indexrelid = i.inhrelid
                          WHERE i.inhparent = member.above AND x.indrelid = member.relid);
    IF member.own IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s became a partition of %s while the index %s was built: run the same again, it goes on from here',
        pipestate.spelled(member.relid, path), the_table, the_index);
    END IF;
    PERFORM pipestate.execute(format('ALTER INDEX %s ATTACH PARTITION %s', member.above, member.own), path);
  END LOOP;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.drop_indexes(
  the_indexes text[], is_registered boolean DEFAULT true,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  the_index text;
  own text;
  tables regclass[];
BEGIN
  SELECT string_agg(i.indexrelid::regclass::text, ', '), array_agg(i.indrelid::regclass) INTO own, tables
    FROM unnest(the_indexes) AS n (name)
    JOIN pg_index i ON i.indexrelid = pipestate.resolve(array_to_string(ARRAY(
           SELECT quote_ident(part) FROM unnest(string_to_array(n.name, '.')) AS part), '.'), path)
   WHERE pipestate.is_ours('index', n.name, is_registered);
  IF own IS NOT NULL THEN
    CALL pipestate.lock_relations(tables, the_timeout_ms, the_patience_s, path);
    PERFORM pipestate.execute(concat('DROP INDEX ', own), path);
  END IF;
  FOREACH the_index IN ARRAY the_indexes LOOP
    CALL pipestate.forget('index', the_index, is_registered);
  END LOOP;
END $$;
CREATE OR REPLACE FUNCTION pipestate.fire_deferred(path text) RETURNS void
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
CREATE OR REPLACE FUNCTION pipestate.listed_columns(columns text)
RETURNS TABLE (number integer, type bigint, modifier integer, filled boolean, name text)
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT m[1]::integer, m[2]::bigint, m[3]::integer, m[4] = '1', m[5]
    FROM regexp_split_to_table(nullif(columns, ''), E'\n') AS line, regexp_match(line, '^(\d+) (\d+) (-?\d+) (\d) (.*)$') AS m
$$;
CREATE OR REPLACE FUNCTION pipestate.base_type(type bigint, modifier integer, domains jsonb, OUT base oid, OUT modified integer) RETURNS record
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  WHILE domains ? type::text LOOP
    modifier := (domains -> type::text ->> 1)::integer;
    type := (domains -> type::text ->> 0)::bigint;
  END LOOP;
  base := pipestate.element_type(type::oid);
  modified := modifier;
END $$;
CREATE OR REPLACE FUNCTION pipestate.leaves_before(root bigint) RETURNS TABLE (oid bigint, rows float8)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
BEGIN
  RETURN QUERY WITH RECURSIVE family (oid) AS (
    SELECT root UNION SELECT b.oid FROM pg_temp.pipestate_before b JOIN family f ON b.parent = f.oid AND b.kind IN ('r', 'p')
  )
  SELECT b.oid, b.rows FROM pg_temp.pipestate_before b JOIN family f ON f.oid = b.oid WHERE b.kind = 'r';
END $$;
CREATE OR REPLACE FUNCTION pipestate.held_before(root bigint) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN EXISTS (SELECT FROM pipestate.leaves_before(root) l JOIN pg_temp.pipestate_memory m ON m.oid = l.oid AND m.what = 'held');
END $$;
CREATE OR REPLACE FUNCTION pipestate.kept_in(type oid) RETURNS bigint[]
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
CREATE OR REPLACE FUNCTION pipestate.written_tables() RETURNS TABLE (oid bigint, has_deleted boolean, root text)
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
CREATE OR REPLACE FUNCTION pipestate.emptied() RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  written record;
  has_rows boolean;
  found bigint[] := '{}';
BEGIN
  FOR written IN SELECT * FROM pipestate.written_tables() w WHERE w.has_deleted LOOP
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', written.root) INTO has_rows;
    IF NOT has_rows THEN
      found := found || written.oid;
    END IF;
  END LOOP;
  RETURN found;
END $$;
CREATE OR REPLACE FUNCTION pipestate.count_values(schema text, name text, columns text[]) RETURNS bigint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found bigint[];
BEGIN
  EXECUTE (SELECT format('SELECT ARRAY[count(*)%s] FROM %I.%I t', string_agg(format(
      ', count(t.%1$I), coalesce((min(t.%1$I::text COLLATE "C") <> max(t.%1$I::text COLLATE "C"))::integer, 0)', u.name), '' ORDER BY u.place),
      schema, $2) FROM unnest(columns) WITH ORDINALITY AS u (name, place)) INTO found;
  RETURN found;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.note_copies(names text[], creates boolean)
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
    counted := pipestate.count_values(old.nspname, old.relname, old.names);
    INSERT INTO pg_temp.pipestate_memory
    SELECT concat('copy of ', old.oid), u.oid, 0, counted[1] FROM unnest(CASE WHEN creates THEN '{0}' ELSE created END) AS u (oid)
    UNION ALL
    SELECT w.what, old.oid, u.number, counted[2 * u.place + w.at]
      FROM unnest(old.numbers) WITH ORDINALITY AS u (number, place) CROSS JOIN (VALUES ('values', 0), ('differ', 1)) AS w (what, at);
  END LOOP;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.note_columns(named text[], dropped text[], writes boolean)
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
        AND d.attnum IN (SELECT l.number FROM pipestate.listed_columns(b.columns) l)
      LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND a.attnum <> d.attnum AND NOT a.attisdropped AND a.attgenerated = ''
      LEFT JOIN LATERAL (SELECT l.number FROM pipestate.listed_columns(b.columns) l WHERE l.number = a.attnum) o ON true
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
CREATE OR REPLACE FUNCTION pipestate.count_rows(schema text, name text, condition text, most bigint) RETURNS bigint
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found bigint;
BEGIN
  EXECUTE format('SELECT count(*) FROM (SELECT FROM %I.%I t WHERE %s LIMIT %L) c', schema, name, condition, most)
    INTO found;
  RETURN found;
END $$;
CREATE OR REPLACE FUNCTION pipestate.losses(statements text) RETURNS TABLE (kind text, name text, rows bigint, detail text)
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
  CREATE TEMP TABLE pipestate_after ON COMMIT DROP AS SELECT * FROM pipestate.catalogue();
  new_domains := (SELECT jsonb_object_agg(a.oid, jsonb_build_array(a.parent, a.filenode))
                    FROM pg_temp.pipestate_after a WHERE a.kind = 'd');
  INSERT INTO pg_temp.pipestate_memory SELECT 'held', b.oid, 0 FROM pg_temp.pipestate_before b WHERE b.kind = 'r' AND b.bytes <> 0;
  FOR old IN SELECT b.* FROM pg_temp.pipestate_before b LEFT JOIN pg_temp.pipestate_after a ON a.oid = b.oid
      WHERE b.kind IN ('r', 'p', 'c') AND (a.oid IS NULL OR a.columns <> b.columns OR a.filenode <> b.filenode)
        AND NOT EXISTS (SELECT FROM pg_temp.pipestate_memory m WHERE m.what = 'created' AND m.oid = b.oid AND m.number = 0)
        AND (pipestate.held_before(b.oid) OR EXISTS (
              SELECT FROM unnest(pipestate.kept_in(b.rowtype::oid)) AS u (oid) WHERE pipestate.held_before(u.oid)
                AND NOT EXISTS (SELECT FROM pg_temp.pipestate_memory m WHERE m.what = 'created' AND m.oid = u.oid AND m.number = 0))) LOOP
    known := CASE old.schema WHEN 'public' THEN '' ELSE old.schema || '.' END || old.name;
    rows := (SELECT nullif(sum(l.rows) FILTER (WHERE l.rows > 0), 0)::bigint FROM pipestate.leaves_before(old.oid) l);
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
      counted := pipestate.count_values(new.schema, new.name, ARRAY(SELECT c.name FROM pipestate.listed_columns(new.columns) c ORDER BY c.number));
      copied := counted[1];
      IF had IS NULL OR copied < had / 2.0 THEN
        kind := 'rows'; name := known; rows := coalesce(had, rows); RETURN NEXT;
        CONTINUE;
      ELSIF copied < had THEN
        RAISE WARNING 'the new table % has % rows, and the old one had %', known, copied, had;
      END IF;
    END IF;
    FOR col IN SELECT c.* FROM pipestate.listed_columns(old.columns) c
        WHERE NOT EXISTS (SELECT FROM pg_temp.pipestate_memory m WHERE m.what = 'created' AND (m.oid, m.number) = (old.oid, c.number)) LOOP
      SELECT c.* INTO there FROM pipestate.listed_columns(new.columns) c
       WHERE CASE WHEN heir THEN c.name = col.name ELSE c.number = col.number END;
      IF there IS NULL AND NOT heir THEN
        CONTINUE WHEN new.parent = old.parent AND EXISTS (SELECT FROM pg_temp.pipestate_before b WHERE b.oid = old.parent);  -- which says it
        SELECT c.* INTO there FROM pipestate.listed_columns(new.columns) c WHERE c.name = col.name;
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
          IF NOT differs OR there.filled OR EXISTS (SELECT FROM pipestate.listed_columns(old.columns) c WHERE c.number = there.number)
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
          place := (SELECT count(*) FROM pipestate.listed_columns(new.columns) c WHERE c.number <= there.number);
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
          WHERE b.oid = old.parent AND NOT EXISTS (SELECT FROM pipestate.listed_columns(a.columns) c WHERE c.name = col.name));
        kind := 'column'; name := known || '.' || col.name; RETURN NEXT;
      ELSIF (there.type, there.modifier) <> (col.type, col.modifier) THEN
        SELECT format('%s becomes %s', format_type(o.base, o.modified), format_type(n.base, n.modified))
          INTO detail
          FROM pipestate.base_type(col.type, col.modifier, coalesce(old_domains, '{}')) o,
               pipestate.base_type(there.type, there.modifier, coalesce(new_domains, '{}')) n
         WHERE (o.base, o.modified) <> (n.base, n.modified)
           AND pipestate.loses(o.base, o.modified, n.base, n.modified, by_hand);
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
            AND pipestate.count_rows(new.schema, new.name, 'true', old.rows::bigint) < old.rows / 2)) THEN
      kind := 'rows'; name := known; RETURN NEXT;
    END IF;
  END LOOP;
  detail := NULL;
  FOR old IN WITH RECURSIVE family (oid, parent) AS (
        SELECT b.oid, b.parent FROM pg_temp.pipestate_before b JOIN pg_temp.pipestate_after a ON (a.oid, a.filenode) = (b.oid, b.filenode)
         WHERE b.oid = ANY (pipestate.emptied()) AND pipestate.held_before(b.oid)
           AND NOT EXISTS (SELECT FROM pg_temp.pipestate_memory m WHERE m.oid = b.oid
                             AND (m.what = 'emptied' OR m.what = 'created' AND m.number = 0))
        UNION SELECT b.oid, b.parent FROM pg_temp.pipestate_before b JOIN family f ON b.oid = f.parent AND b.kind = 'p')
      SELECT b.* FROM pg_temp.pipestate_before b JOIN family f ON f.oid = b.oid
       WHERE NOT EXISTS (SELECT FROM family g WHERE g.oid = b.parent) LOOP
    kind := 'rows';
    name := CASE old.schema WHEN 'public' THEN '' ELSE old.schema || '.' END || old.name;
    rows := (SELECT nullif(sum(l.rows) FILTER (WHERE l.rows > 0), 0)::bigint FROM pipestate.leaves_before(old.oid) l);
    RETURN NEXT;
  END LOOP;
  INSERT INTO pg_temp.pipestate_memory
  SELECT 'created', a.oid, 0 FROM pg_temp.pipestate_after a WHERE NOT EXISTS (SELECT FROM pg_temp.pipestate_before b WHERE b.oid = a.oid)
  UNION ALL
  SELECT 'created', a.oid, c.number FROM pg_temp.pipestate_after a JOIN pg_temp.pipestate_before b ON b.oid = a.oid
    AND b.columns <> a.columns, pipestate.listed_columns(a.columns) c
   WHERE NOT EXISTS (SELECT FROM pipestate.listed_columns(b.columns) o WHERE o.number = c.number);
  DELETE FROM pg_temp.pipestate_memory c USING pg_temp.pipestate_memory h
   WHERE c.what = 'created' AND h.what = 'heir' AND (c.oid, c.number) = (h.oid, h.number);
  DROP TABLE pg_temp.pipestate_after;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.begin_revision(revision text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF to_regclass('pg_temp.pipestate_before') IS NULL THEN
    CREATE TEMP TABLE pipestate_before AS SELECT * FROM pipestate.catalogue() LIMIT 0;
    CREATE TEMP TABLE pipestate_memory (what text, oid bigint, number integer, rows bigint);  -- tables and columns: 'created', 'held'
  END IF;
  DELETE FROM pg_temp.pipestate_before;
  INSERT INTO pg_temp.pipestate_before SELECT * FROM pipestate.catalogue();
  DELETE FROM pg_temp.pipestate_memory m WHERE m.what = 'emptied';
  INSERT INTO pg_temp.pipestate_memory SELECT 'emptied', u.oid, 0 FROM unnest(pipestate.emptied()) AS u (oid);
  PERFORM set_config('pipestate.begun', revision, true);
END $$;
CREATE OR REPLACE PROCEDURE pipestate.end_revision(
  revision text, direction text, mode text, reason text, statements text, own boolean,
  path text DEFAULT pg_catalog.current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found jsonb;
  said text;
  options text;
BEGIN
  PERFORM pipestate.fire_deferred(path);
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
    FROM pipestate.losses(statements) l
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
CREATE OR REPLACE FUNCTION pipestate.parents(relation regclass) RETURNS regclass[]
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(SELECT confrelid::regclass FROM pg_constraint WHERE conrelid = relation AND contype = 'f')
$$;
CREATE OR REPLACE FUNCTION pipestate.restored_with(
  revision text, kind text, name text, schemas text[], state text) RETURNS SETOF text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT found.t FROM pipestate.soft_dropped($1, $2, $3, $4) AS entry, LATERAL (
    SELECT pipestate.hidden_relation(entry)::text
    UNION ALL SELECT substring(removed ->> 'definition', ' REFERENCES ([^(]+)[(]')
      FROM jsonb_array_elements(entry.removed) AS removed WHERE removed ->> 'kind' = 'foreign key') AS found (t)
   WHERE entry.state = $5
$$;
CREATE OR REPLACE FUNCTION pipestate.element_type(type oid) RETURNS oid
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce((SELECT t.typelem FROM pg_type t WHERE t.oid = type AND t.typcategory = 'A' AND t.typelem <> 0), type)
$$;
CREATE OR REPLACE FUNCTION pipestate.loses(old regtype, old_modifier integer, new regtype, new_modifier integer, by_hand boolean)
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
CREATE OR REPLACE PROCEDURE pipestate.record_revision(
  event text, revision text, title text, file_sha256 text, version_table text, actor text, reason text,
  path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  dropped jsonb := nullif(nullif(current_setting('pipestate.dropped', true), ''), '[]');
BEGIN
  INSERT INTO pipestate.run (event, actor, revision, reason, title, file_sha256, version_table, dropped, database)
  SELECT event, actor, revision, CASE WHEN dropped IS NOT NULL THEN reason END, title, file_sha256,
         (SELECT format('"%s"."%s"', replace(n.nspname, '"', '""'), replace(c.relname, '"', '""'))
            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
           WHERE c.oid = pipestate.resolve(version_table, path)),
         dropped, pipestate.this_database();
  PERFORM set_config('pipestate.dropped', '', false);
END $$;
CREATE OR REPLACE PROCEDURE pipestate.lift_timeout()
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('pipestate.timeout_before', current_setting('statement_timeout'), false),
          set_config('statement_timeout', '0', false);
END
$$;
CREATE OR REPLACE PROCEDURE pipestate.set_timeout_back()
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('statement_timeout', current_setting('pipestate.timeout_before'), false);
END
$$;
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
CREATE OR REPLACE FUNCTION pipestate.schemas_of(path text) RETURNS text[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('search_path', path, true);
  RETURN pg_catalog.current_schemas(false);
END $$;
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
CREATE OR REPLACE FUNCTION pipestate.may_record() RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT bool_and(has_table_privilege(c.oid, 'SELECT') AND has_any_column_privilege(c.oid, 'INSERT'))
    FROM pg_class c WHERE c.relnamespace = 'pipestate'::regnamespace AND c.relname IN ('run', 'result')
$$;
CREATE OR REPLACE FUNCTION pipestate.written_columns(ledger_table regclass) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum)
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
   WHERE a.attrelid = ledger_table AND a.attnum > 0 AND NOT a.attisdropped AND a.attidentity = ''
     AND coalesce(pg_get_expr(d.adbin, d.adrelid), '') NOT IN ('clock_timestamp()', 'CURRENT_USER')
$$;
CREATE OR REPLACE PROCEDURE pipestate.grant_recording(
  the_role name, the_tables text[] DEFAULT '{run,result,attestation,observation}')
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation regclass;
BEGIN
  EXECUTE format('GRANT USAGE ON SCHEMA pipestate TO %I', the_role);
  EXECUTE format('GRANT SELECT ON ALL TABLES IN SCHEMA pipestate TO %I', the_role);
  FOR relation IN SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'pipestate'::regnamespace AND c.relkind = 'r'
                   AND c.relname = ANY (the_tables) LOOP
    EXECUTE format('GRANT INSERT (%s) ON %s TO %I', pipestate.written_columns(relation), relation, the_role);
  END LOOP;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.grant_migrating(the_role name)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  every_table text[] := ARRAY(SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'pipestate'::regnamespace AND c.relkind = 'r');
BEGIN
  CALL pipestate.grant_recording(the_role, every_table);
  EXECUTE format('GRANT INSERT, UPDATE, DELETE ON pipestate.object, pipestate.soft_drop TO %I', the_role);
  EXECUTE format('GRANT USAGE ON SEQUENCE pipestate.soft_drop_id_seq TO %I', the_role);
  EXECUTE format('GRANT EXECUTE ON ALL ROUTINES IN SCHEMA pipestate TO %I', the_role);
END $$;
CREATE OR REPLACE FUNCTION pipestate.is_of_this_transaction(writer xid) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  -- A running transaction may be above the snapshot; a writer far above it is of the epoch before.
  SELECT pg_current_xact_id_if_assigned() IS NOT NULL AND pg_xact_status((x.next - x.next % 4294967296 + w.low
      - CASE WHEN w.low - x.next % 4294967296 > 2147483648 THEN 4294967296 ELSE 0 END)::text::xid8) = 'in progress'
    FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::numeric) AS x (next), (SELECT writer::text::numeric) AS w (low)
   WHERE w.low > 2 AND (x.next > 4294967296 OR w.low - x.next % 4294967296 <= 2147483648)
$$;
CREATE OR REPLACE FUNCTION pipestate.has_rows(relation regclass, path text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pipestate.read_only(format('SELECT pg_catalog.to_json(EXISTS (SELECT FROM %s))', relation), path, '')::text = 'true' THEN
    RETURN true;
  ELSIF pg_current_xact_id_if_assigned() IS NULL THEN
    RETURN false;
  END IF;
  RETURN EXISTS (
    WITH RECURSIVE family (oid) AS (
      SELECT relation::oid UNION SELECT i.inhrelid FROM pg_inherits i JOIN family f ON i.inhparent = f.oid
    )
    SELECT FROM family f JOIN pg_class c ON c.oid = f.oid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'ctid'
     WHERE pipestate.is_of_this_transaction(a.xmin) IS NOT TRUE
       AND (pipestate.is_of_this_transaction(c.xmin)
            -- The counter may still hold a transaction before this one; the lock of a DELETE is this one's.
            OR (EXISTS (SELECT FROM pg_locks l WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND l.relation = c.oid
                           AND l.mode = 'RowExclusiveLock')
                AND (pg_stat_get_xact_tuples_deleted(c.oid) > 0
                     OR (current_setting('track_counts') = 'off' AND pg_relation_size(c.oid) > 0)))));
END $$;
CREATE OR REPLACE FUNCTION pipestate.schema_definitions()
RETURNS TABLE (schema text, kind text, name text, definition text, rights text, left_out boolean)
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on
SET quote_all_identifiers = off
SET TimeZone = utc
SET DateStyle = iso, mdy
SET IntervalStyle = postgres
SET extra_float_digits = 1
SET bytea_output = hex
AS $definitions$
WITH place AS (
  SELECT n.oid, n.nspname, n.nspowner, n.nspacl FROM pg_namespace n
  WHERE n.nspname NOT LIKE 'pg\_%' AND n.nspname NOT IN ('information_schema', 'pipestate')
    AND n.nspname NOT LIKE 'pipestate\_archive%'
), member AS MATERIALIZED (
  SELECT d.classid, d.objid FROM pg_depend d WHERE d.deptype = 'e' AND d.objid >= 16384
), relation AS (
  SELECT c.oid, c.relname, c.relkind, c.relpersistence, c.relrowsecurity, c.relforcerowsecurity, c.reloptions,
         c.relowner, c.relacl, c.relispartition, n.nspname
  FROM pg_class c JOIN place n ON n.oid = c.relnamespace
  WHERE c.oid >= 16384 AND c.relpersistence <> 't' AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f', 'i', 'I')
    AND c.relname !~ '^_pipestate_[0-9]+_'
    AND NOT EXISTS (SELECT FROM member m WHERE m.objid = c.oid AND m.classid = 'pg_class'::regclass)
), comment AS (
  SELECT d.objoid, d.objsubid, d.description FROM pg_description d
  WHERE d.classoid = 'pg_class'::regclass AND d.objoid >= 16384
)
SELECT object.schema, object.kind, object.name, coalesce(object.definition, '') AS definition, object.rights, object.left_out
FROM (
  SELECT r.nspname::text AS schema,
         CASE r.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence'
                        WHEN 'f' THEN 'foreign table' ELSE 'table' END AS kind,
         r.relname::text AS name,
         concat_ws(', ', CASE WHEN r.relpersistence = 'u' THEN 'unlogged' END,
           CASE WHEN r.relrowsecurity THEN 'row level security' END,
           CASE WHEN r.relforcerowsecurity THEN 'force row level security' END, r.reloptions::text, c.description,
           CASE WHEN r.relkind = 'p' THEN 'partition by ' || pg_get_partkeydef(r.oid) END,
           CASE WHEN r.relkind IN ('v', 'm') THEN pg_get_viewdef(r.oid) END,
           (SELECT 'inherits ' || string_agg(i.inhparent::regclass::text, ', ' ORDER BY i.inhseqno)
            FROM pg_inherits i WHERE i.inhrelid = r.oid),
           (SELECT concat_ws(' ', format_type(s.seqtypid, NULL), s.seqstart, s.seqincrement, s.seqmin, s.seqmax,
                             s.seqcache, s.seqcycle) FROM pg_sequence s WHERE s.seqrelid = r.oid)
         ) AS definition,
         concat_ws(', ', 'owner ' || pg_get_userbyid(r.relowner), 'rights ' || r.relacl::text) AS rights,
         r.relispartition AS left_out
  FROM relation r LEFT JOIN comment c ON c.objoid = r.oid AND c.objsubid = 0
  WHERE r.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
  UNION ALL
  SELECT r.nspname, 'column', r.relname || '.' || a.attname,
         concat_ws(', ', format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'not null' END,
           'default ' || pg_get_expr(d.adbin, d.adrelid),
           nullif('identity ' || a.attidentity::text, 'identity '),
           nullif('generated ' || a.attgenerated::text, 'generated '),
           'collation ' || nullif(a.attcollation, t.typcollation)::regcollation::text, c.description),
         'rights ' || a.attacl::text, r.relispartition
  FROM relation r
  JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
  JOIN pg_type t ON t.oid = a.atttypid
  LEFT JOIN pg_attrdef d ON d.adrelid = r.oid AND d.adnum = a.attnum
  LEFT JOIN comment c ON c.objoid = r.oid AND c.objsubid = a.attnum
  WHERE r.relkind IN ('r', 'p', 'f') AND a.attrelid >= 16384 AND a.attname !~ '^_pipestate_[0-9]+_'
  UNION ALL
  SELECT r.nspname, 'index', r.relname,
         pg_get_indexdef(i.indexrelid) || CASE WHEN i.indisvalid THEN '' ELSE ' (invalid)' END,
         NULL, r.relispartition OR t.relispartition
  FROM relation r JOIN pg_index i ON i.indexrelid = r.oid JOIN pg_class t ON t.oid = i.indrelid
  UNION ALL
  SELECT r.nspname, 'constraint', r.relname || '.' || c.conname, pg_get_constraintdef(c.oid), NULL,
         r.relispartition OR c.conparentid <> 0 OR c.contype = 'n'
  FROM relation r JOIN pg_constraint c ON c.conrelid = r.oid
  WHERE c.conname !~ '^_pipestate_[0-9]+_'
  UNION ALL
  SELECT r.nspname, 'trigger', r.relname || '.' || t.tgname,
         pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text, NULL, r.relispartition
  FROM relation r JOIN pg_trigger t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
  UNION ALL
  SELECT r.nspname, 'rule', r.relname || '.' || w.rulename, pg_get_ruledef(w.oid) || ' ' || w.ev_enabled::text,
         NULL, r.relispartition
  FROM relation r JOIN pg_rewrite w ON w.ev_class = r.oid WHERE w.rulename <> '_RETURN'
  UNION ALL
  SELECT r.nspname, 'policy', r.relname || '.' || p.polname,
         concat_ws(' ', CASE WHEN p.polpermissive THEN 'PERMISSIVE' ELSE 'RESTRICTIVE' END,
           CASE p.polcmd WHEN 'r' THEN 'SELECT' WHEN 'a' THEN 'INSERT' WHEN 'w' THEN 'UPDATE' WHEN 'd' THEN 'DELETE'
             ELSE 'ALL' END, pg_get_expr(p.polqual, p.polrelid),
           pg_get_expr(p.polwithcheck, p.polrelid),
           array(SELECT CASE each WHEN 0 THEN 'public' ELSE pg_get_userbyid(each)::text END
                 FROM unnest(p.polroles) AS each ORDER BY 1)::text),
         NULL, r.relispartition
  FROM relation r JOIN pg_policy p ON p.polrelid = r.oid
  UNION ALL
  SELECT n.nspname, 'statistics', s.stxname, pg_get_statisticsobjdef(s.oid), NULL, t.relispartition
  FROM pg_statistic_ext s JOIN place n ON n.oid = s.stxnamespace
  JOIN pg_class t ON t.oid = s.stxrelid
  UNION ALL
  SELECT n.nspname, CASE p.prokind WHEN 'p' THEN 'procedure' WHEN 'a' THEN 'aggregate' ELSE 'function' END,
         p.proname || '(' || oidvectortypes(p.proargtypes) || ')',
         CASE WHEN p.prokind <> 'a' THEN pg_get_functiondef(p.oid)
              ELSE (SELECT concat_ws(' ', a.aggtransfn, a.aggfinalfn, format_type(a.aggtranstype, NULL), a.agginitval)
                    FROM pg_aggregate a WHERE a.aggfnoid = p.oid) END, NULL, false
  FROM pg_proc p JOIN place n ON n.oid = p.pronamespace
  WHERE p.oid >= 16384
    AND NOT EXISTS (SELECT FROM member m WHERE m.objid = p.oid AND m.classid = 'pg_proc'::regclass)
  UNION ALL
  SELECT n.nspname, 'type', t.typname,
         concat_ws(', ',
           (SELECT string_agg(quote_literal(e.enumlabel), ', ' ORDER BY e.enumsortorder)
            FROM pg_enum e WHERE e.enumtypid = t.oid),
           (SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
            FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped),
           (SELECT 'range of ' || format_type(g.rngsubtype, NULL) FROM pg_range g WHERE g.rngtypid = t.oid),
           CASE WHEN t.typtype = 'd' THEN format_type(t.typbasetype, t.typtypmod) END,
           CASE WHEN t.typtype = 'd' AND t.typnotnull THEN 'not null' END, 'default ' || t.typdefault,
           (SELECT string_agg(c.conname || ' ' || pg_get_constraintdef(c.oid), ', ' ORDER BY c.conname)
            FROM pg_constraint c WHERE c.contypid = t.oid AND c.contype = 'c')), NULL, false
  FROM pg_type t JOIN place n ON n.oid = t.typnamespace
  WHERE t.oid >= 16384 AND (t.typtype IN ('e', 'd', 'r')
      OR t.typtype = 'c' AND EXISTS (SELECT FROM pg_class c WHERE c.oid = t.typrelid AND c.relkind = 'c'))
    AND NOT EXISTS (SELECT FROM member m WHERE m.objid = t.oid AND m.classid = 'pg_type'::regclass)
  UNION ALL
  SELECT '', 'schema', n.nspname, '',
         concat_ws(', ', 'owner ' || pg_get_userbyid(n.nspowner), 'rights ' || n.nspacl::text), false
  FROM place n
  WHERE NOT EXISTS (SELECT FROM member m WHERE m.objid = n.oid AND m.classid = 'pg_namespace'::regclass)
  UNION ALL
  SELECT '', 'extension', e.extname, e.extversion, NULL, false FROM pg_extension e WHERE e.oid >= 16384
  UNION ALL
  SELECT '', 'event trigger', v.evtname, concat_ws(' ', v.evtevent, v.evtfoid::regproc, v.evtenabled::text, v.evttags::text),
         NULL, false
  FROM pg_event_trigger v
) AS object
$definitions$;
CREATE OR REPLACE FUNCTION pipestate.schema_method() RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $method$
SELECT 'PostgreSQL ' || current_setting('server_version_num')::integer / 10000 || ', '
       || left(encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex'), 8)
FROM pg_proc p WHERE p.oid = 'pipestate.schema_definitions()'::regprocedure
$method$;
CREATE OR REPLACE PROCEDURE pipestate.record_schema(of_revision text, by_person text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $record$
BEGIN
WITH catalogue (name, rows, youngest) AS (
  SELECT 'pg_class', count(*), min(age(xmin)) FROM pg_class
  UNION ALL SELECT 'pg_attribute', count(*), min(age(xmin)) FROM pg_attribute
  UNION ALL SELECT 'pg_attrdef', count(*), min(age(xmin)) FROM pg_attrdef
  UNION ALL SELECT 'pg_constraint', count(*), min(age(xmin)) FROM pg_constraint
  UNION ALL SELECT 'pg_index', count(*), min(age(xmin)) FROM pg_index
  UNION ALL SELECT 'pg_inherits', count(*), min(age(xmin)) FROM pg_inherits
  UNION ALL SELECT 'pg_trigger', count(*), min(age(xmin)) FROM pg_trigger
  UNION ALL SELECT 'pg_rewrite', count(*), min(age(xmin)) FROM pg_rewrite
  UNION ALL SELECT 'pg_policy', count(*), min(age(xmin)) FROM pg_policy
  UNION ALL SELECT 'pg_sequence', count(*), min(age(xmin)) FROM pg_sequence
  UNION ALL SELECT 'pg_statistic_ext', count(*), min(age(xmin)) FROM pg_statistic_ext
  UNION ALL SELECT 'pg_proc', count(*), min(age(xmin)) FROM pg_proc
  UNION ALL SELECT 'pg_aggregate', count(*), min(age(xmin)) FROM pg_aggregate
  UNION ALL SELECT 'pg_type', count(*), min(age(xmin)) FROM pg_type
  UNION ALL SELECT 'pg_enum', count(*), min(age(xmin)) FROM pg_enum
  UNION ALL SELECT 'pg_range', count(*), min(age(xmin)) FROM pg_range
  UNION ALL SELECT 'pg_namespace', count(*), min(age(xmin)) FROM pg_namespace
  UNION ALL SELECT 'pg_description', count(*), min(age(xmin)) FROM pg_description
  UNION ALL SELECT 'pg_extension', count(*), min(age(xmin)) FROM pg_extension
  UNION ALL SELECT 'pg_event_trigger', count(*), min(age(xmin)) FROM pg_event_trigger
), now AS (
  SELECT jsonb_object_agg(c.name, c.rows) AS catalogues, min(c.youngest) AS youngest FROM catalogue c
), last AS (
  SELECT r.method, r.xid::xid AS xid, r.catalogues FROM pipestate.schema_record r ORDER BY r.id DESC LIMIT 1
)
INSERT INTO pipestate.schema_record (revision, actor, method, xid, catalogues, objects)
SELECT of_revision, by_person, pipestate.schema_method(), pg_snapshot_xmin(pg_current_snapshot())::xid::text,
       now.catalogues,
       (SELECT coalesce(jsonb_agg(jsonb_build_array(d.schema, d.kind, d.name,
                          left(encode(sha256(convert_to(d.definition, 'UTF8')), 'hex'), 16))), '[]')
        FROM pipestate.schema_definitions() AS d WHERE NOT d.left_out)
FROM now
WHERE NOT EXISTS (
  SELECT FROM last
  WHERE last.method = pipestate.schema_method() AND last.catalogues = now.catalogues
    AND age(last.xid) >= 0 AND now.youngest > age(last.xid)
);
END
$record$;
CREATE OR REPLACE FUNCTION pipestate.refuse(the_message text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = the_message;
END
$$;
CREATE OR REPLACE FUNCTION pipestate.warn(the_message text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE WARNING '%', the_message;
  PERFORM set_config('pipestate.said',
    concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), the_message), false);
END
$$;
CREATE OR REPLACE FUNCTION pipestate.tell(the_message text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE NOTICE '%', the_message;
  PERFORM set_config('pipestate.told',
    concat_ws(E'\n', nullif(current_setting('pipestate.told', true), ''), the_message), false);
END
$$;
CREATE OR REPLACE FUNCTION pipestate.require_gate(the_revision text, the_relations regclass[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  unlocked text;
BEGIN
  IF current_setting('pipestate.gate', true) IS DISTINCT FROM the_revision THEN
    PERFORM pipestate.refuse(format(
      'the gate of revision %s was not passed in this transaction, so nothing was dropped: run the whole revision',
      the_revision));
  END IF;
  SELECT string_agg(relation::text, ', ') INTO unlocked FROM unnest(the_relations) AS relation
   WHERE NOT EXISTS (SELECT FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'relation' AND granted
                        AND mode = 'AccessExclusiveLock' AND pg_locks.relation = relation.relation);
  IF unlocked IS NOT NULL THEN
    PERFORM pipestate.refuse(format(
      'the gate of revision %s has not locked %s, so nothing was dropped: name it in gate(..., lock=[...])',
      the_revision, unlocked));
  END IF;
END
$$;
CREATE OR REPLACE FUNCTION pipestate.running_writers() RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  next_xact CONSTANT bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;  -- before the others are read
  now_at CONSTANT timestamptz := clock_timestamp();
BEGIN
  RETURN jsonb_build_object('next', next_xact,
    'running', (SELECT coalesce(jsonb_agg(transactionid::text::bigint), '[]') FROM pg_locks
                 WHERE locktype = 'transactionid' AND mode = 'ExclusiveLock' AND granted AND pid <> pg_backend_pid()),
    'since', (SELECT least(min(xact_start), now_at) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type <> 'autovacuum worker'));
END
$$;
CREATE OR REPLACE PROCEDURE pipestate.soft_drop_columns(
  the_revision text, the_gate text, the_table text, the_relation regclass, the_columns text[], the_triggers text[],
  the_derived text[], may_be_gone boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  numbers smallint[] := pipestate.numbers_of(the_relation, the_columns);
  n bigint;
  fault text;
  hidden jsonb;       -- name, hidden name, and the default that new rows get at the restore
  removed jsonb := '[]';
  renamed jsonb := '[]';
  held boolean;
  item record;
  watched text;
BEGIN
  PERFORM set_config('row_security', 'off', true);  -- a policy would hide rows
  IF the_relation IS NULL OR array_length(numbers, 1) IS DISTINCT FROM array_length(the_columns, 1) AND NOT may_be_gone THEN
    SELECT string_agg(CASE WHEN the_relation IS NULL THEN the_table ELSE the_table || '.' || wanted END, ', ') INTO fault
      FROM unnest(the_columns) AS wanted
     WHERE the_relation IS NULL OR NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = the_relation
                                                  AND attname = wanted AND attnum > 0 AND NOT attisdropped);
    IF NOT may_be_gone THEN
      PERFORM pipestate.refuse(format('revision %s drops %s, which does not exist: correct the name, or write '
        'may_be_gone=True where that is right', the_revision, fault));
    END IF;
  END IF;
  IF numbers = '{}' OR the_relation IS NULL THEN
    INSERT INTO pipestate.soft_drop (revision, gate, kind, schema_name, table_name, name, state)
    VALUES (the_revision, the_gate, 'columns', '', the_table, the_table, 'absent');
    RETURN;
  END IF;
  IF the_gate IS NOT NULL THEN  -- a downgrade has none
    PERFORM pipestate.require_gate(the_revision, ARRAY[the_relation]);
  END IF;
  fault := pipestate.columns_fault(the_relation, the_columns, the_triggers, true);
  IF fault IS NOT NULL THEN
    PERFORM pipestate.refuse(fault || '; this contract changed nothing');
  END IF;
  n := nextval('pipestate.soft_drop_id_seq');
  SELECT jsonb_agg(jsonb_build_object('name', attname, 'hidden', format('_pipestate_%s_%s', n, i), 'number', attnum,
           'type', format_type(atttypid, atttypmod), 'generated', attgenerated <> '', 'default', filled) ORDER BY i)
    INTO hidden
    FROM (SELECT attname, attnum, atttypid, atttypmod, attgenerated, row_number() OVER (ORDER BY attnum) AS i,
                 CASE WHEN attgenerated = '' THEN coalesce(pg_get_expr(adbin, adrelid), pg_get_expr(typdefaultbin, 0)) END AS filled
            FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
            LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
           WHERE attrelid = the_relation AND attnum = ANY (numbers)) AS going;

  -- Record with the names that people know, then rename, then remove.
  removed := pipestate.removed_with(the_relation, the_columns, the_triggers, the_derived);
  renamed := pipestate.renamed_with(the_relation, the_columns, the_derived, removed, n);
  EXECUTE format('SELECT EXISTS (SELECT FROM %s)', the_relation) INTO held;
  FOR item IN SELECT each ->> 'name' AS name, each ->> 'hidden' AS hidden FROM jsonb_array_elements(hidden) AS each LOOP
    EXECUTE format('ALTER TABLE %s RENAME COLUMN %I TO %I', the_relation, item.name, item.hidden);
  END LOOP;
  removed := pipestate.with_hidden_definitions(removed);
  FOR item IN SELECT each ->> 'drop' AS statement FROM jsonb_array_elements(removed) AS each LOOP
    EXECUTE item.statement;
  END LOOP;
  FOR item IN SELECT each ->> 'hide' AS statement FROM jsonb_array_elements(renamed) AS each LOOP
    EXECUTE item.statement;
  END LOOP;
  FOR item IN  -- in 13 to 17 a NOT NULL has no name, and is no constraint
    SELECT member, attname, attnum FROM pipestate.family(the_relation) AS member
      JOIN pg_attribute ON attrelid = member AND attnotnull AND NOT attisdropped
      JOIN jsonb_array_elements(hidden) AS each ON attname = each ->> 'hidden'
     ORDER BY attinhcount, member
  LOOP
    EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP NOT NULL', item.member, item.attname);
  END LOOP;
  EXECUTE format('ALTER TABLE %s ADD COLUMN %I boolean DEFAULT true', the_relation, format('_pipestate_%s_0', n));
  EXECUTE format('ALTER TABLE %s ALTER COLUMN %I DROP DEFAULT', the_relation, format('_pipestate_%s_0', n));
  -- Without this, an INSERT that names no columns would write its values into hidden ones. It tells those apart only if a
  -- hidden column of a new row is NULL: so the defaults are removed, too, also that of a domain.
  FOR item IN SELECT each ->> 'hidden' AS name FROM jsonb_array_elements(hidden) AS each WHERE NOT (each ->> 'generated')::boolean LOOP
    EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT NULL', the_relation, item.name);
  END LOOP;
  SELECT string_agg(quote_ident(each ->> 'hidden'), ', ') INTO watched
    FROM jsonb_array_elements(hidden) AS each WHERE NOT (each ->> 'generated')::boolean;
  IF watched IS NOT NULL THEN
    EXECUTE format('ALTER TABLE %s ADD CONSTRAINT %I CHECK (%I IS NOT NULL OR num_nonnulls(%s) = 0) NOT VALID',
      the_relation, format('_pipestate_%s_c', n), format('_pipestate_%s_0', n), watched);
  END IF;
  INSERT INTO pipestate.soft_drop (id, revision, gate, kind, schema_name, table_name, name, columns, removed, renamed,
                                   held, state, xact, writers, dropped_at)
  SELECT n, the_revision, the_gate, 'columns', nspname, relname, the_table, hidden, removed, renamed,
         held, 'hidden', NULL, pipestate.running_writers(), clock_timestamp()
    FROM pg_class JOIN pg_namespace ns ON ns.oid = relnamespace WHERE pg_class.oid = the_relation;
  UPDATE pipestate.soft_drop SET xact = xmin::text::bigint WHERE id = n;  -- of the subtransaction, where there is one
  PERFORM pipestate.warn(format('the logical replication slot %s (%s) reads this database: its consumer will see the '
      'hidden names', slot_name, plugin)) FROM pg_replication_slots
    WHERE slot_type = 'logical' AND database = current_database() AND plugin <> 'pgoutput';
END
$$;
CREATE OR REPLACE FUNCTION pipestate.removed_with(
  the_relation regclass, the_columns text[], the_triggers text[], the_derived text[]) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on AS $$
BEGIN
  RETURN (
  WITH member AS (
    SELECT relation, ordinality AS place, pipestate.numbers_of(relation, the_columns) AS going
      FROM pipestate.family(the_relation) WITH ORDINALITY AS f (relation, ordinality)
  ), found (place, part, item) AS (
    SELECT -place, 0, jsonb_build_object('kind', 'default', 'relation', relation::text, 'column', a.attname, 'name', NULL,
             'drop', 'SELECT', 'definition', pg_get_expr(d.adbin, d.adrelid), 'root', relation = the_relation)
      FROM member JOIN pg_attribute a ON a.attrelid = relation AND a.attnum = ANY (going) AND a.attgenerated = ''
      LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
      LEFT JOIN pg_attribute r ON r.attrelid = the_relation AND r.attname = a.attname
      LEFT JOIN pg_attrdef o ON o.adrelid = r.attrelid AND o.adnum = r.attnum
     WHERE CASE WHEN relation = the_relation THEN d.oid IS NOT NULL  -- the root's reaches the others; some have their own
           ELSE pg_get_expr(d.adbin, d.adrelid) IS DISTINCT FROM pg_get_expr(o.adbin, o.adrelid) END
    UNION ALL
    SELECT place, 1, jsonb_build_object('kind', 'trigger', 'relation', relation::text, 'name', tgname,
             'drop', format('DROP TRIGGER %I ON %s', tgname, relation), 'definition', pg_get_triggerdef(t.oid),
             'enabled', tgenabled, 'comment', obj_description(t.oid, 'pg_trigger'))
      FROM member JOIN pg_trigger t ON tgrelid = relation
     WHERE tgname = ANY (the_triggers) AND NOT tgisinternal AND tgparentid = 0
    UNION ALL
    SELECT place, 2, jsonb_build_object('kind', CASE contype WHEN 'f' THEN 'foreign key' WHEN 'n' THEN 'not null' ELSE 'check' END,
             'relation', relation::text, 'name', conname,
             'drop', format('ALTER TABLE %s DROP CONSTRAINT IF EXISTS %I', relation, conname),
             'definition', pg_get_constraintdef(c.oid), 'validated', convalidated,
             'comment', obj_description(c.oid, 'pg_constraint'))
      FROM member JOIN pg_constraint c ON conrelid = relation
     WHERE (conkey && going OR contype = 'c' AND 0 = ANY (conkey)) AND conparentid = 0  -- 0: the whole row
       AND (contype = 'f' OR conislocal AND contype IN ('c', 'n')
           OR contype = 'n' AND NOT EXISTS (SELECT FROM pg_inherits JOIN pg_constraint p ON p.conrelid = inhparent AND p.contype = 'n'
                AND p.conname = c.conname WHERE inhrelid = relation))
    UNION ALL
    SELECT place, 2, jsonb_build_object('kind', 'not null', 'relation', relation::text, 'column', attname, 'name', NULL,
             'drop', 'SELECT', 'validated', true)
      FROM member JOIN pg_attribute a ON attrelid = relation AND attnum = ANY (going) AND attnotnull
     WHERE NOT EXISTS (SELECT FROM pg_inherits JOIN pg_attribute p ON p.attrelid = inhparent AND p.attname = a.attname
                        WHERE inhrelid = relation AND p.attnotnull)
       AND NOT EXISTS (SELECT FROM pg_constraint WHERE conrelid = relation AND contype = 'n' AND attnum = ANY (conkey))
    UNION ALL
    SELECT place, 3, jsonb_build_object('kind', CASE WHEN c.contype = 'x' THEN 'exclusion' ELSE 'unique' END,
             'relation', relation::text, 'name', coalesce(c.conname, i.relname), 'index', i.relname, 'index_oid', i.oid::text,
             'constraint', c.oid IS NOT NULL,
             'drop', CASE WHEN c.oid IS NULL THEN format('DROP INDEX %s', i.oid::regclass)
                          ELSE format('ALTER TABLE %s DROP CONSTRAINT %I', relation, c.conname) END,
             'definition', coalesce(pg_get_constraintdef(c.oid),
                                    replace(pg_get_indexdef(i.oid), format(' ON ONLY %s ', relation), format(' ON %s ', relation))),
             'children', (SELECT coalesce(jsonb_agg(jsonb_build_object('relation', child.indrelid::regclass::text, 'name', k.relname)), '[]')
                            FROM pg_partition_tree(i.oid) t JOIN pg_index child ON child.indexrelid = t.relid
                            JOIN pg_class k ON k.oid = t.relid WHERE t.relid <> i.oid AND i.relkind = 'I'),
             'deferrable', concat_ws(' ', CASE WHEN c.condeferrable THEN 'DEFERRABLE' END,
                                          CASE WHEN c.condeferred THEN 'INITIALLY DEFERRED' END),
             'plain', NOT x.indisexclusion AND x.indpred IS NULL AND x.indexprs IS NULL,
             'partitioned', i.relkind = 'I', 'nulls_equal', (to_jsonb(x) ->> 'indnullsnotdistinct')::boolean IS TRUE,
             'keys', ARRAY(SELECT attname FROM unnest(indkey::smallint[]) WITH ORDINALITY AS k (number, n)
                             JOIN pg_attribute ON attrelid = relation AND attnum = number
                            WHERE n <= indnkeyatts ORDER BY n),
             'clustered', x.indisclustered, 'comment', coalesce(obj_description(c.oid, 'pg_constraint'), obj_description(i.oid, 'pg_class')))
      FROM member JOIN pg_index x ON indrelid = relation AND indisunique OR indrelid = relation AND indisexclusion
      JOIN pg_class i ON i.oid = x.indexrelid
      LEFT JOIN pg_constraint c ON c.conindid = i.oid AND c.conrelid = relation AND c.contype IN ('u', 'x')
     WHERE pipestate.index_columns(i.oid) && going AND NOT i.relispartition
       AND (NOT pipestate.index_columns(i.oid) <@ going
            OR (to_jsonb(x) ->> 'indnullsnotdistinct')::boolean IS TRUE
            OR pipestate.index_columns(i.oid) && pipestate.numbers_of(relation, the_derived)
            OR NOT EXISTS (  -- one of its columns is NULL in a restored new row, or counts by itself
                 SELECT FROM pg_attribute JOIN pg_type t ON t.oid = atttypid
                   LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
                  WHERE attrelid = relation AND attnum = ANY (pipestate.index_columns(i.oid)) AND (
                    NOT (atthasdef OR typdefault IS NOT NULL OR attgenerated <> '')
                    OR pg_get_expr(adbin, adrelid) ~ '(nextval|gen_random_uuid|uuidv7|uuid_generate_v[14])\(')))
  )
  SELECT coalesce(jsonb_agg(item ORDER BY part, place, item ->> 'name'), '[]') FROM found);
END
$$;
CREATE OR REPLACE FUNCTION pipestate.with_hidden_definitions(the_removed jsonb) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
  SELECT coalesce(jsonb_agg(CASE WHEN each ? 'index_oid' THEN
           each - 'index_oid' || jsonb_build_object('hidden_definition', substr(pg_get_indexdef(i.oid),
             1 + length(format('CREATE %sINDEX %I ON %s%s', CASE WHEN indisunique THEN 'UNIQUE ' END, i.relname,
                               CASE WHEN i.relkind = 'I' THEN 'ONLY ' END, indrelid::regclass))))
         ELSE each END ORDER BY place), '[]')
    FROM jsonb_array_elements(the_removed) WITH ORDINALITY AS e (each, place)
    LEFT JOIN pg_class i ON i.oid = (each ->> 'index_oid')::oid LEFT JOIN pg_index ON indexrelid = i.oid);
END
$$;
CREATE OR REPLACE FUNCTION pipestate.renamed_with(
  the_relation regclass, the_columns text[], the_derived text[], the_removed jsonb, n bigint) RETURNS jsonb
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
  WITH member AS (
    SELECT relation, pipestate.numbers_of(relation, the_columns) AS going FROM pipestate.family(the_relation) AS f (relation)
  ), removed AS (
    SELECT (each ->> 'index_oid')::oid AS oid FROM jsonb_array_elements(the_removed) AS each
  ), found AS (
    SELECT 'index' AS kind, i.oid, i.relname AS name, format('ALTER INDEX %s RENAME', i.oid::regclass) AS statement
      FROM member JOIN pg_index x ON indrelid = relation JOIN pg_class i ON i.oid = indexrelid
     WHERE pipestate.index_columns(i.oid) && going AND i.oid NOT IN (SELECT oid FROM removed WHERE oid IS NOT NULL)
       AND NOT EXISTS (SELECT FROM pg_inherits JOIN removed ON removed.oid = inhparent WHERE inhrelid = i.oid)
    UNION ALL
    SELECT 'statistics', s.oid, stxname, format('ALTER STATISTICS %s.%I RENAME', stxnamespace::regnamespace, stxname)
      FROM member JOIN pg_statistic_ext s ON stxrelid = relation
     WHERE EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_statistic_ext'::regclass AND objid = s.oid
                      AND refobjid = relation AND refobjsubid = ANY (going))
  ), numbered AS (
    SELECT *, format('_pipestate_%s_x%s', n, row_number() OVER (ORDER BY kind, name, oid)) AS hidden FROM found
  )
  SELECT coalesce(jsonb_agg(jsonb_build_object('kind', kind, 'name', name, 'hidden', hidden,
           'hide', format('%s TO %I', statement, hidden)) ORDER BY hidden), '[]')
    FROM numbered);
END
$$;
CREATE OR REPLACE PROCEDURE pipestate.soft_drop_tables(
  the_revision text, the_gate text, the_names text[], the_relations regclass[], may_be_gone boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  there regclass[] := ARRAY(SELECT relation FROM unnest(the_relations) AS relation WHERE relation IS NOT NULL);
  going regclass[] := ARRAY(SELECT DISTINCT pipestate.family(one) FROM unnest(the_relations) AS one WHERE one IS NOT NULL);
  fault text;
  members regclass[];
  n bigint;
  held boolean;
  removed jsonb;
  renamed jsonb;
  item record;
  one record;
BEGIN
  PERFORM set_config('row_security', 'off', true);  -- a policy would hide rows
  SELECT string_agg(name, ', ') INTO fault FROM unnest(the_names, the_relations) AS t (name, relation) WHERE relation IS NULL;
  IF fault IS NOT NULL AND NOT may_be_gone THEN
    PERFORM pipestate.refuse(format('revision %s drops %s, which does not exist: correct the name, or write '
      'may_be_gone=True where that is right', the_revision, fault));
  END IF;
  INSERT INTO pipestate.soft_drop (revision, gate, kind, schema_name, table_name, name, state)
  SELECT the_revision, the_gate, 'table', '', name, name, 'absent'
    FROM unnest(the_names, the_relations) AS t (name, relation) WHERE relation IS NULL;
  IF there = '{}' THEN RETURN; END IF;
  IF the_gate IS NOT NULL THEN  -- a downgrade has none
    PERFORM pipestate.require_gate(the_revision, there);
  END IF;
  fault := pipestate.tables_fault(there, '{}');
  IF fault IS NOT NULL THEN
    PERFORM pipestate.refuse(fault || '; this contract changed nothing');
  END IF;
  FOR one IN SELECT name, relation FROM unnest(the_names, the_relations) AS t (name, relation) WHERE relation IS NOT NULL LOOP
    n := nextval('pipestate.soft_drop_id_seq');
    -- A child that the contract names has an entry of its own.
    members := ARRAY(SELECT m FROM pipestate.family(one.relation) AS m WHERE m = one.relation OR m <> ALL (there));
    EXECUTE format('SELECT EXISTS (SELECT FROM %s)', one.relation) INTO held;
    SELECT coalesce(jsonb_agg(jsonb_build_object('kind', 'foreign key', 'relation', conrelid::regclass::text, 'name', conname,
             'drop', format('ALTER TABLE %s DROP CONSTRAINT %I', conrelid::regclass, conname),
             'definition', pg_get_constraintdef(oid), 'validated', convalidated,
             'comment', obj_description(oid, 'pg_constraint')) ORDER BY conname), '[]')
      INTO removed FROM pg_constraint
     WHERE contype = 'f' AND conrelid = ANY (members) AND conparentid = 0
       AND confrelid <> ALL (going);
    WITH moved AS (
      SELECT c.oid, relname, relnamespace, relkind, relkind IN ('r', 'p') AS is_table
        FROM pg_class c WHERE oid = ANY (members)
      UNION ALL
      SELECT i.oid, i.relname, i.relnamespace, i.relkind, false
        FROM pg_index JOIN pg_class i ON i.oid = indexrelid WHERE indrelid = ANY (members)
      UNION ALL
      SELECT s.oid, s.relname, s.relnamespace, s.relkind, false
        FROM pg_depend JOIN pg_class s ON s.oid = objid AND s.relkind = 'S'
       WHERE classid = 'pg_class'::regclass AND refclassid = 'pg_class'::regclass AND deptype IN ('a', 'i')
         AND refobjid = ANY (members)
    ), numbered AS (
      SELECT *, row_number() OVER (ORDER BY oid <> one.relation, NOT is_table, relname, oid) - 1 AS i FROM moved
    )
    SELECT jsonb_agg(jsonb_build_object('kind', CASE WHEN is_table THEN 'table' WHEN relkind = 'S' THEN 'sequence' ELSE 'index' END,
             'name', relname, 'schema', relnamespace::regnamespace::text, 'hidden', format('_pipestate_%s_%s', n, i)) ORDER BY i)
      INTO renamed FROM numbered;
    INSERT INTO pipestate.soft_drop (id, revision, gate, kind, schema_name, table_name, name, removed, renamed, held, state,
                                     xact, writers, dropped_at)
    SELECT n, the_revision, the_gate, 'table', nspname, relname, one.name, removed, renamed, held,
           'hidden', NULL, pipestate.running_writers(), clock_timestamp()
      FROM pg_class JOIN pg_namespace ns ON ns.oid = relnamespace WHERE pg_class.oid = one.relation;
    UPDATE pipestate.soft_drop SET xact = xmin::text::bigint WHERE id = n;
    FOR item IN SELECT each ->> 'drop' AS statement FROM jsonb_array_elements(removed) AS each LOOP
      EXECUTE item.statement;
    END LOOP;
    FOR item IN SELECT each ->> 'kind' AS kind, each ->> 'schema' AS schema, each ->> 'name' AS name, each ->> 'hidden' AS hidden
                  FROM jsonb_array_elements(renamed) AS each LOOP
      EXECUTE format('ALTER %s %s.%I RENAME TO %I', upper(item.kind), item.schema, item.name, item.hidden);
    END LOOP;
    FOR item IN SELECT each ->> 'schema' AS schema, each ->> 'hidden' AS hidden
                  FROM jsonb_array_elements(renamed) AS each WHERE each ->> 'kind' = 'table' LOOP
      EXECUTE format('ALTER TABLE %s.%I SET SCHEMA pipestate_archive', item.schema, item.hidden);
    END LOOP;
  END LOOP;
END
$$;
CREATE OR REPLACE FUNCTION pipestate.require_backup(the_relation regclass, the_numbers smallint[], has_backup boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  publications text := pipestate.publications_of(the_relation, the_numbers);
BEGIN
  IF publications IS NOT NULL AND NOT has_backup THEN
    PERFORM pipestate.refuse(format('%s is published by %s, and keep=False drops for good: must_pass of the contract must name the '
      'sign-off backup-taken', the_relation, publications));
  END IF;
END
$$;
CREATE OR REPLACE PROCEDURE pipestate.drop_columns_for_good(
  the_revision text, the_table text, the_relation regclass, the_columns text[], the_triggers text[], may_be_gone boolean,
  has_backup boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  fault text;
  going text;
  item record;
BEGIN
  SELECT string_agg(the_table || '.' || wanted, ', ') INTO fault FROM unnest(the_columns) AS wanted
   WHERE the_relation IS NULL OR pipestate.numbers_of(the_relation, ARRAY[wanted]) = '{}';
  IF fault IS NOT NULL AND NOT may_be_gone THEN
    PERFORM pipestate.refuse(format('revision %s drops %s, which does not exist: correct the name, or write '
      'may_be_gone=True where that is right', the_revision, fault));
  END IF;
  IF the_relation IS NULL THEN RETURN; END IF;
  PERFORM pipestate.require_gate(the_revision, ARRAY[the_relation]);
  fault := pipestate.columns_fault(the_relation, the_columns, the_triggers, false);
  IF fault IS NOT NULL THEN
    PERFORM pipestate.refuse(fault || '; this contract changed nothing');
  END IF;
  PERFORM pipestate.require_backup(the_relation, pipestate.numbers_of(the_relation, the_columns), has_backup);
  FOR item IN SELECT tgname, tgrelid::regclass AS relation FROM pg_trigger
               WHERE tgrelid IN (SELECT pipestate.family(the_relation)) AND tgname = ANY (the_triggers)
                 AND NOT tgisinternal AND tgparentid = 0
  LOOP
    EXECUTE format('DROP TRIGGER %I ON %s', item.tgname, item.relation);
  END LOOP;
  SELECT string_agg(format('DROP COLUMN %I', attname), ', ' ORDER BY attnum) INTO going FROM pg_attribute
   WHERE attrelid = the_relation AND attnum = ANY (pipestate.numbers_of(the_relation, the_columns));
  IF going IS NOT NULL THEN
    EXECUTE format('ALTER TABLE %s %s', the_relation, going);
  END IF;
END
$$;
CREATE OR REPLACE PROCEDURE pipestate.drop_tables_for_good(
  the_revision text, the_names text[], the_relations regclass[], may_be_gone boolean, has_backup boolean)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  there regclass[] := array_remove(the_relations, NULL);
  fault text;
BEGIN
  SELECT string_agg(name, ', ') INTO fault FROM unnest(the_names, the_relations) AS t (name, relation) WHERE relation IS NULL;
  IF fault IS NOT NULL AND NOT may_be_gone THEN
    PERFORM pipestate.refuse(format('revision %s drops %s, which does not exist: correct the name, or write '
      'may_be_gone=True where that is right', the_revision, fault));
  END IF;
  IF there = '{}' THEN RETURN; END IF;
  PERFORM pipestate.require_gate(the_revision, there);
  fault := pipestate.tables_fault(there, '{}');
  IF fault IS NOT NULL THEN
    PERFORM pipestate.refuse(fault || '; this contract changed nothing');
  END IF;
  PERFORM pipestate.require_backup(relation, '{}', has_backup) FROM unnest(there) AS relation;
  EXECUTE format('DROP TABLE %s', array_to_string(there, ', '));
END
$$;
CREATE OR REPLACE FUNCTION pipestate.family(the_relation regclass) RETURNS SETOF regclass
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY
  WITH RECURSIVE member (relation, depth) AS (
    SELECT the_relation, 0
    UNION ALL
    SELECT inhrelid::regclass, depth + 1 FROM member JOIN pg_inherits ON inhparent = member.relation)
  SELECT relation FROM member GROUP BY relation ORDER BY max(depth), relation;
END
$$;
CREATE OR REPLACE FUNCTION pipestate.numbers_of(the_relation regclass, the_columns text[]) RETURNS smallint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
  SELECT coalesce(array_agg(attnum ORDER BY attnum), '{}') FROM pg_attribute
   WHERE attrelid = the_relation AND attname = ANY (the_columns) AND attnum > 0 AND NOT attisdropped);
END
$$;
CREATE OR REPLACE FUNCTION pipestate.foreign_keys(the_relation regclass, the_columns text[]) RETURNS SETOF oid
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT oid FROM pg_constraint WHERE contype = 'f' AND conrelid = the_relation
     AND (the_columns IS NULL OR conkey && pipestate.numbers_of(the_relation, the_columns))
$$;
CREATE OR REPLACE FUNCTION pipestate.referenced(the_relation regclass, the_columns text[]) RETURNS SETOF text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT confrelid::regclass::text FROM pg_constraint WHERE oid IN (SELECT pipestate.foreign_keys(the_relation, the_columns))
$$;
CREATE OR REPLACE FUNCTION pipestate.index_columns(the_index regclass) RETURNS smallint[]
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
  SELECT ARRAY(SELECT DISTINCT number FROM (
    SELECT unnest(indkey::smallint[]) FROM pg_index WHERE indexrelid = the_index
    UNION ALL
    SELECT refobjsubid::smallint FROM pg_index JOIN pg_depend ON classid = 'pg_class'::regclass AND objid = the_index
       AND refclassid = 'pg_class'::regclass AND refobjid = indrelid
     WHERE indexrelid = the_index) AS used (number) WHERE number <> 0));
END
$$;
CREATE OR REPLACE FUNCTION pipestate.readers_of(the_relation regclass, the_numbers smallint[]) RETURNS SETOF text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN QUERY
  SELECT CASE WHEN ev_class = the_relation THEN format('rule %s of %s', rulename, ev_class::regclass)
              ELSE format('view %s', ev_class::regclass) END
    FROM pg_depend JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
   WHERE refclassid = 'pg_class'::regclass AND refobjid = the_relation AND refobjsubid = ANY (the_numbers)
  UNION
  SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
   WHERE refclassid = 'pg_class'::regclass AND refobjid = the_relation AND refobjsubid = ANY (the_numbers)
     AND deptype = 'n' AND classid IN ('pg_policy'::regclass, 'pg_proc'::regclass);
END
$$;
CREATE OR REPLACE FUNCTION pipestate.trigger_names(the_trigger pg_trigger, the_column text) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  body text := (SELECT prosrc FROM pg_proc WHERE oid = the_trigger.tgfoid);
  word text := regexp_replace(the_column, '([^[:alnum:]_])', '\\\1', 'g');
  has_transition boolean := the_trigger.tgnewtable IS NOT NULL OR the_trigger.tgoldtable IS NOT NULL;
  plain text := regexp_replace(body, '\m(?!values\M)\w+\s*\(\s*(new|old)\s*\.\s*\*\s*\)', '', 'gi');  -- to_jsonb(new.*)
BEGIN
  RETURN position('\x00'::bytea || convert_to(the_column, getdatabaseencoding()) || '\x00'::bytea
                  IN '\x00'::bytea || the_trigger.tgargs) > 0
      OR body ~* ('(\m(new|old)|\))\s*\.\s*"?' || word || '"?\M')
      OR (has_transition OR body ~* '\mexecute\M') AND body ~* ('\m' || word || '\M')
      OR plain ~* '\minsert\M[^;]*\m(new|old)\s*\.\s*\*'
      OR has_transition AND plain ~* '\minsert\M[^;]*(\.|\mselect|,)\s*\*';
END
$$;
CREATE OR REPLACE FUNCTION pipestate.rights_fault(the_relation regclass, the_columns text[]) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  place regnamespace := (SELECT relnamespace FROM pg_class WHERE oid = the_relation);
  found text;
BEGIN
  IF the_relation IS NULL THEN RETURN NULL; END IF;
  SELECT string_agg(DISTINCT confrelid::regclass::text, ', ') INTO found FROM pg_constraint
   WHERE contype = 'f' AND conrelid IN (SELECT pipestate.family(the_relation))
     AND (the_columns IS NULL OR conkey && pipestate.numbers_of(conrelid, the_columns))
     AND NOT (has_any_column_privilege(confrelid, 'REFERENCES') AND has_table_privilege(confrelid, 'UPDATE, DELETE, TRUNCATE'));
  IF found IS NOT NULL THEN
    RETURN format('a foreign key of %s could not be restored, because %s may not lock and reference the other table: GRANT '
      'REFERENCES, UPDATE ON %s TO %I', the_relation, current_user, found, current_user);
  END IF;
  IF NOT has_schema_privilege(place, 'CREATE') AND (the_columns IS NULL OR EXISTS (
       SELECT FROM jsonb_array_elements(pipestate.removed_with(the_relation, the_columns, '{}', '{}')) AS removed
        WHERE removed ->> 'kind' IN ('unique', 'exclusion'))) THEN
    RETURN format('%s could not be restored, because %s may not create in the schema %s: GRANT CREATE ON SCHEMA %s TO %I',
      CASE WHEN the_columns IS NULL THEN the_relation::text ELSE 'an index of ' || the_relation END, current_user, place, place,
      current_user);
  END IF;
  RETURN NULL;
END
$$;
CREATE OR REPLACE FUNCTION pipestate.columns_fault(
  the_relation regclass, the_columns text[], the_triggers text[], is_kept boolean) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp
SET standard_conforming_strings = on AS $$
DECLARE
  listed text := array_to_string(the_columns, ', ');
  numbers smallint[] := pipestate.numbers_of(the_relation, the_columns);
  found text;
  line record;
BEGIN
  IF the_relation IS NULL THEN RETURN NULL; END IF;
  IF (SELECT relkind NOT IN ('r', 'p') FROM pg_class WHERE oid = the_relation) THEN
    RETURN format('%s is not a table', the_relation);
  END IF;

  -- What the server itself could not rename, or drop.
  SELECT string_agg(attname, ', ') INTO found FROM pg_attribute
   WHERE attrelid = the_relation AND attnum = ANY (numbers) AND attinhcount > 0;
  IF found IS NOT NULL THEN
    RETURN format('%s inherits %s from %s: name that table in the contract', the_relation, found,
      (SELECT string_agg(inhparent::regclass::text, ', ') FROM pg_inherits WHERE inhrelid = the_relation));
  END IF;
  SELECT string_agg(format('%s of %s', attname, attrelid::regclass), ', ') INTO found FROM pg_attribute
   WHERE attrelid IN (SELECT pipestate.family(the_relation)) AND attname = ANY (the_columns) AND attinhcount > 1;
  IF found IS NOT NULL THEN
    RETURN format('%s comes from several parents, so the server cannot rename it: end one inheritance first', found);
  END IF;
  SELECT string_agg(oid::regclass::text, ', ') INTO found FROM pg_class
   WHERE oid IN (SELECT pipestate.family(the_relation)) AND reloftype <> 0;
  IF found IS NOT NULL THEN
    RETURN format('%s is a typed table, whose columns belong to its type: ALTER TABLE ... NOT OF first', found);
  END IF;
  SELECT string_agg(oid::regclass::text, ', ') INTO found FROM pg_class
   WHERE oid IN (SELECT pipestate.family(the_relation)) AND relkind = 'f';
  IF found IS NOT NULL THEN
    RETURN format('%s is a foreign table in the family of %s: detach it first', found, the_relation);
  END IF;
  SELECT string_agg(DISTINCT format('%s of %s', conname, conrelid::regclass), ', ') INTO found
    FROM pipestate.family(the_relation) AS member JOIN pg_constraint ON conrelid = member AND contype = 'p'
   WHERE pipestate.index_columns(conindid) && pipestate.numbers_of(member, the_columns);
  IF found IS NOT NULL THEN
    RETURN format('%s is part of the primary key %s: give the table another key first', listed, found);
  END IF;
  SELECT string_agg(DISTINCT partrelid::regclass::text, ', ') INTO found
    FROM pipestate.family(the_relation) AS member JOIN pg_partitioned_table ON partrelid = member
   WHERE partattrs::smallint[] && pipestate.numbers_of(member, the_columns)
      OR EXISTS (SELECT FROM pg_depend WHERE classid = 'pg_class'::regclass AND objid = member AND deptype = 'i'
                    AND objsubid = ANY (pipestate.numbers_of(member, the_columns))
                    AND refclassid = 'pg_class'::regclass AND refobjid = member AND refobjsubid = 0);
  IF found IS NOT NULL THEN
    RETURN format('%s is part of the partition key of %s', listed, found);
  END IF;

  -- What depends on the columns, and would go on without them or stop.
  SELECT string_agg(DISTINCT what, ', ') INTO found FROM pipestate.family(the_relation) AS member
   CROSS JOIN LATERAL pipestate.numbers_of(member, the_columns) AS going
   CROSS JOIN LATERAL (
    SELECT pipestate.readers_of(member, going)
    UNION
    SELECT pg_describe_object(classid, objid, 0) FROM pg_depend JOIN pg_trigger t ON t.oid = objid
     WHERE classid = 'pg_trigger'::regclass AND refclassid = 'pg_class'::regclass AND refobjid = member
       AND refobjsubid = ANY (going) AND tgname <> ALL (the_triggers) AND NOT tgisinternal
    UNION  -- a column that is computed from one that stays hidden goes on; another one is refused
    SELECT format('computed column %s of %s', attname, member) FROM pg_depend
      JOIN pg_attribute ON attrelid = member AND attnum = objsubid
     WHERE classid = 'pg_class'::regclass AND objid = member AND objsubid > 0 AND objsubid <> ALL (going)
       AND refclassid = 'pg_class'::regclass AND refobjid = member AND refobjsubid = ANY (going)
    UNION
    SELECT format('computed column %s of %s', attname, member) FROM pg_depend
      JOIN pg_attrdef d ON classid = 'pg_attrdef'::regclass AND d.oid = objid
      JOIN pg_attribute ON attrelid = member AND attnum = adnum AND attgenerated <> ''
     WHERE adrelid = member AND adnum <> ALL (going)
       AND refclassid = 'pg_class'::regclass AND refobjid = member AND refobjsubid = ANY (going)
    UNION
    SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
     WHERE contype = 'f' AND confrelid = member AND confkey && going) AS dependents (what);
  IF found IS NOT NULL THEN
    RETURN format('%s of %s cannot be dropped while others depend on it: %s. Drop or change them first%s',
      listed, the_relation, found, CASE WHEN found LIKE '%trigger%' THEN
        '; a trigger of this table may be dropped with the columns: drop_triggers=[...]' ELSE '' END);
  END IF;
  FOR line IN
    SELECT tgname, tgrelid::regclass AS relation, tgfoid::regprocedure AS function, going
      FROM pg_trigger t CROSS JOIN unnest(the_columns) AS going
     WHERE tgrelid IN (SELECT pipestate.family(the_relation)) AND NOT tgisinternal AND tgname <> ALL (the_triggers)
       AND pipestate.trigger_names(t, going)
     ORDER BY tgname, going
  LOOP
    RETURN format('the trigger %s of %s runs %s, which names %s or inserts whole rows: every write would fail without that '
      'column. Drop the trigger with it: drop_triggers=[%L]', line.tgname, line.relation, line.function, line.going,
      line.tgname::text);
  END LOOP;
  SELECT string_agg(format('column %I of %s', attname, attrelid::regclass), ', ') INTO found FROM (
    WITH RECURSIVE row_types (type) AS (
      SELECT reltype FROM pg_class WHERE oid IN (SELECT pipestate.family(the_relation))
      UNION  -- arrays, domains and ranges of it, and types and tables with a column of it
      SELECT CASE WHEN c.oid IS NULL THEN d.objid ELSE c.reltype END
        FROM row_types JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
        LEFT JOIN pg_class c ON d.classid = 'pg_class'::regclass AND c.oid = d.objid
       WHERE d.classid = 'pg_type'::regclass OR c.reltype <> 0)
    SELECT a.attname, a.attrelid FROM row_types
      JOIN pg_depend d ON d.refclassid = 'pg_type'::regclass AND d.refobjid = row_types.type
           AND d.classid = 'pg_class'::regclass AND d.objsubid > 0
      JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'm')
      JOIN pg_attribute a ON a.attrelid = d.objid AND a.attnum = d.objsubid AND NOT a.attisdropped) AS holding;
  IF found IS NOT NULL THEN
    RETURN format('%s stores whole rows of %s: change that column first', found, the_relation);
  END IF;
  IF NOT is_kept THEN RETURN NULL; END IF;

  -- What a hidden column could not stand.
  SELECT string_agg(format('%s (%s)', attname, format_type(atttypid, atttypmod)), ', ') INTO found
    FROM pg_attribute JOIN pg_type ON pg_type.oid = atttypid
   WHERE attrelid = the_relation AND attnum = ANY (numbers) AND typtype = 'd' AND attgenerated = ''
     AND pipestate.rejects_null(atttypid);
  IF found IS NOT NULL THEN
    RETURN format('the domain of %s rejects NULL, so new rows of %s could not be written: give the column the type below '
      'that domain, or write keep=False', found, the_relation);
  END IF;
  SELECT string_agg(format('ALTER COLUMN %I DROP IDENTITY, ALTER COLUMN %1$I DROP NOT NULL', attname), ', ') INTO found
    FROM pg_attribute WHERE attrelid = the_relation AND attnum = ANY (numbers) AND attidentity <> '';
  IF found IS NOT NULL THEN
    RETURN format('%s is an identity column, which stays NOT NULL, so a copied row could not be inserted. In an earlier revision run ALTER TABLE %s %s; or write keep=False', listed, the_relation, found);
  END IF;
  SELECT string_agg(format('%s of %s', indexrelid::regclass, member), ', ') INTO found
    FROM pipestate.family(the_relation) AS member JOIN pg_index ON indrelid = member AND indisreplident
   WHERE pipestate.index_columns(indexrelid) && pipestate.numbers_of(member, the_columns);
  IF found IS NOT NULL THEN
    RETURN format('%s is in the replica identity index %s: choose another replica identity first', listed, found);
  END IF;
  SELECT string_agg(member::text, ', ') INTO found FROM pipestate.family(the_relation) AS member
   WHERE (SELECT max(attnum) FROM pg_attribute WHERE attrelid = member) >= 1600;
  IF found IS NOT NULL THEN
    RETURN format('%s has 1,600 columns, dropped ones included, and no room for the mark of a soft drop: write keep=False',
      found);
  END IF;
  found := pipestate.publications_of(the_relation, numbers);
  IF found IS NOT NULL THEN
    RETURN format('%s is published by %s, whose subscribers would stop at a renamed column: take it out of the publication, '
      'or write keep=False', the_relation, found);
  END IF;
  RETURN CASE WHEN is_kept THEN pipestate.rights_fault(the_relation, the_columns) END;
END
$$;
CREATE OR REPLACE FUNCTION pipestate.rejects_null(the_type oid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  EXECUTE format('SELECT NULL::%s', format_type(the_type, NULL));
  RETURN false;
EXCEPTION WHEN OTHERS THEN  -- a CHECK may call a function that fails
  RETURN true;
END
$$;
CREATE OR REPLACE FUNCTION pipestate.publications_of(the_relation regclass, the_numbers smallint[]) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RETURN (
  SELECT string_agg(DISTINCT t.pubname::text, ', ') FROM pg_publication_tables t
    JOIN pg_publication p ON p.pubname = t.pubname
   WHERE to_regclass(format('%I.%I', t.schemaname, t.tablename)) IN (
           SELECT pipestate.family(the_relation)
           UNION ALL SELECT relid FROM pg_partition_ancestors(the_relation))
     AND NOT EXISTS (  -- a list of columns, from 15 on, that has none of them; a list sends no mark
       SELECT FROM pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = the_relation
          AND to_jsonb(r) ->> 'prattrs' IS NOT NULL
          AND NOT EXISTS (SELECT FROM jsonb_array_elements_text(to_jsonb(r) -> 'prattrs') AS sent
                           WHERE sent::smallint = ANY (the_numbers))));
END
$$;
CREATE OR REPLACE FUNCTION pipestate.tables_fault(the_relations regclass[], the_keys oid[]) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  going regclass[] := ARRAY(SELECT DISTINCT pipestate.family(one) FROM unnest(array_remove(the_relations, NULL)) AS one);
  found text;
BEGIN
  the_relations := array_remove(the_relations, NULL);
  SELECT string_agg(oid::regclass::text, ', ') INTO found FROM pg_class
   WHERE oid = ANY (the_relations) AND relkind NOT IN ('r', 'p');
  IF found IS NOT NULL THEN
    RETURN format('%s is not a table', found);
  END IF;
  SELECT string_agg(oid::regclass::text, ', ') INTO found FROM pg_class WHERE oid = ANY (going) AND relkind = 'f';
  IF found IS NOT NULL THEN
    RETURN format('%s is a foreign table, which cannot be soft-dropped: detach it first', found);
  END IF;
  SELECT string_agg(format('%s of %s', inhrelid::regclass, inhparent::regclass), ', ') INTO found FROM pg_inherits
   WHERE inhrelid = ANY (the_relations) AND inhparent <> ALL (going);
  IF found IS NOT NULL THEN
    RETURN format('%s is a partition or a child: detach it in the revision (DETACH PARTITION, NO INHERIT), then drop it '
      'with a contract', found);
  END IF;
  SELECT string_agg(format('%s of %s', inhrelid::regclass, inhparent::regclass), ', ') INTO found
    FROM pg_inherits JOIN pg_class ON oid = inhrelid
   WHERE inhparent = ANY (the_relations) AND NOT relispartition AND inhrelid <> ALL (the_relations);
  IF found IS NOT NULL THEN
    RETURN format('%s inherits from a table that is dropped: name it in the contract, too', found);
  END IF;
  SELECT string_agg(DISTINCT what, ', ') INTO found FROM (
    SELECT CASE WHEN ev_class = ANY (going) THEN NULL ELSE format('view %s', ev_class::regclass) END FROM pg_depend
      JOIN pg_rewrite r ON classid = 'pg_rewrite'::regclass AND r.oid = objid
     WHERE refclassid = 'pg_class'::regclass AND refobjid = ANY (going)
    UNION
    SELECT pg_describe_object(classid, objid, objsubid) FROM pg_depend
     WHERE refclassid = 'pg_class'::regclass AND refobjid = ANY (going) AND deptype = 'n'
       AND (classid = 'pg_proc'::regclass
            OR classid = 'pg_policy'::regclass AND objid NOT IN (SELECT oid FROM pg_policy WHERE polrelid = ANY (going)))
    UNION
    SELECT format('foreign key %s of %s', conname, conrelid::regclass) FROM pg_constraint
     WHERE contype = 'f' AND confrelid = ANY (going) AND conrelid <> ALL (going) AND oid <> ALL (the_keys)
       AND conparentid = 0
  ) AS dependents (what);
  IF found IS NOT NULL THEN
    RETURN format('%s cannot be dropped while others depend on it: %s. Drop or change them first',
      array_to_string(the_relations, ', '), found);
  END IF;
  RETURN NULL;
END
$$;
CREATE OR REPLACE FUNCTION pipestate.resolve(name text, path text) RETURNS regclass
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('search_path', path, true);
  RETURN pg_catalog.to_regclass(name);
END $$;
CREATE OR REPLACE FUNCTION pipestate.spelled(relation regclass, path text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('search_path', path, true);
  RETURN relation::text;
END $$;
CREATE OR REPLACE FUNCTION pipestate.execute(statement text, path text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM set_config('search_path', path, true);
  EXECUTE statement;
END $$;
CREATE OR REPLACE FUNCTION pipestate.value_of(query text, path text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  value text;
BEGIN
  PERFORM set_config('search_path', path, true);
  EXECUTE query INTO value;
  RETURN value;
END $$;
CREATE OR REPLACE FUNCTION pipestate.is_true(condition text, path text) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(pipestate.value_of(concat('SELECT ', condition), path)::boolean, false)
$$;
CREATE OR REPLACE PROCEDURE pipestate.require_part(the_part text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF the_part <> coalesce(current_setting('pipestate.part', true), '') THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'an earlier step of this revision failed, so this step does nothing: see the error above';
  END IF;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.refuse_if(the_condition text, the_message text, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF pipestate.is_true(the_condition, path) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = the_message;
  END IF;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.refuse_found(the_query text, the_message text, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  found_text text := pipestate.value_of(the_query, path);
BEGIN
  IF found_text IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(the_message, found_text);
  END IF;
END $$;
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
CREATE OR REPLACE PROCEDURE pipestate.say(the_sentence text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE WARNING '%', the_sentence;
  PERFORM set_config('pipestate.said', concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), the_sentence), false);
END $$;
CREATE OR REPLACE PROCEDURE pipestate.remember(the_kind text, the_name text, the_revision text)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF the_revision IS NOT NULL THEN
    INSERT INTO pipestate.object (kind, name, revision) VALUES (the_kind, the_name, the_revision) ON CONFLICT DO NOTHING;
  END IF;
END $$;
CREATE OR REPLACE FUNCTION pipestate.is_ours(the_kind text, the_name text, is_registered boolean DEFAULT true) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT is_registered THEN RETURN true; END IF;  -- there may be no registry that could be read
  RETURN EXISTS (SELECT FROM pipestate.object o WHERE o.kind = the_kind AND o.name = the_name);
END $$;
CREATE OR REPLACE PROCEDURE pipestate.forget(the_kind text, the_name text, is_registered boolean DEFAULT true)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF is_registered THEN DELETE FROM pipestate.object o WHERE o.kind = the_kind AND o.name = the_name; END IF;
END $$;
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
CREATE OR REPLACE PROCEDURE pipestate.create_table(
  the_table text, the_statement text, the_indexes json DEFAULT '{}', the_revision text DEFAULT NULL,
  path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  statement text := the_statement;
  part text[];
BEGIN
  IF pipestate.resolve(the_table, path) IS NOT NULL THEN RETURN; END IF;
  FOR part IN SELECT regexp_matches(the_statement, '\{type of (\S+)\.([^.}]+)\}', 'g') LOOP
    statement := replace(statement, format('{type of %s.%s}', part[1], part[2]),
      (SELECT format_type(a.atttypid, a.atttypmod) FROM pg_attribute a
       WHERE a.attrelid = pipestate.resolve(part[1], path) AND a.attname = part[2]));
  END LOOP;
  PERFORM pipestate.execute(statement, path);
  CALL pipestate.remember('table', the_table, the_revision);
  FOR part IN SELECT ARRAY[i.key, i.value] FROM json_each_text(the_indexes) AS i LOOP
    PERFORM pipestate.execute(part[2], path);
    CALL pipestate.remember('index', part[1], the_revision);
  END LOOP;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.drop_table(
  the_table text, the_name text, the_revision text, is_registered boolean DEFAULT true,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
BEGIN
  IF pipestate.is_ours('table', the_name, is_registered) AND relation IS NOT NULL THEN
    CALL pipestate.lock_relations(relation || pipestate.parents(relation), the_timeout_ms, the_patience_s, path);
    IF pipestate.is_true(format('EXISTS (SELECT FROM %s)', the_table), path) THEN
      IF to_regclass('pipestate.soft_drop') IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
          '%s has rows, and soft-dropping it needs a ledger: run pipestate ledger install', the_table);
      END IF;
      CALL pipestate.soft_drop_tables(the_revision, NULL, ARRAY[the_name], ARRAY[relation], true);
    ELSE
      PERFORM pipestate.execute(format('DROP TABLE %s', relation), path);
    END IF;
  END IF;
  CALL pipestate.forget('table', the_name, is_registered);
END $$;
CREATE OR REPLACE PROCEDURE pipestate.bring_back_table(
  the_name text, the_revision text, is_registered boolean DEFAULT true, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  schemas CONSTANT text[] := pipestate.schemas_of(path);
BEGIN
  IF EXISTS (SELECT FROM pipestate.soft_dropped(the_revision, 'table', the_name, schemas) AS d WHERE d.state <> 'absent') THEN
    CALL pipestate.restore_table(the_revision, the_name, schemas);
    CALL pipestate.validate_restored(the_revision, 'table', the_name, schemas);
    CALL pipestate.end_restore(the_revision, 'table', the_name, schemas);
    CALL pipestate.remember('table', the_name, CASE WHEN is_registered THEN the_revision END);
  END IF;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.require_shape(
  the_table text, the_key text, the_columns text[], may_be_partitioned boolean DEFAULT false, the_unique text[] DEFAULT '{}',
  the_times text[] DEFAULT '{}', path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  relation CONSTANT regclass := pipestate.resolve(the_table, path);
  kind "char" := (SELECT c.relkind FROM pg_class c WHERE c.oid = relation);
  found_text text;
  fault text;
BEGIN
  IF relation IS NULL THEN RETURN; END IF;
  IF NOT (kind = 'r' OR (kind = 'p' AND may_be_partitioned)) THEN
    fault := format('%s exists, but is %s: rename it, or point the migrations at another database or search_path', the_table,
      CASE WHEN may_be_partitioned THEN 'no table (a view)' ELSE 'not a plain table (a view, or partitioned)' END);
  END IF;
  SELECT string_agg(c, ', ') INTO found_text FROM unnest(the_columns) AS c
   WHERE NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = relation AND a.attname = c AND NOT a.attisdropped);
  IF fault IS NULL AND found_text IS NOT NULL THEN
    fault := format('%s exists, but without %s: this is a different table of the same name. Rename it, '
      'or point the migrations at another database or search_path', the_table, found_text);
  END IF;
  SELECT string_agg(format('of %s is %s', a.attname, format_type(a.atttypid, NULL)), ', ' ORDER BY a.attnum)
    INTO found_text FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
   WHERE a.attrelid = relation AND a.attname = ANY (the_times) AND NOT a.attisdropped AND t.typcategory <> 'D';
  IF fault IS NULL AND found_text IS NOT NULL THEN  -- which zone a text means, nobody knows
    fault := format('%1$s exists, but the type %2$s, and the migrations compare them with the clock: give them a time''s, as in '
      'ALTER TABLE %1$s ALTER COLUMN %3$I TYPE timestamptz USING %3$I::timestamptz, then run the same again',
      the_table, found_text, the_times[1]);
  END IF;
  -- The key that rows are partitioned by must be in every unique index.
  IF fault IS NULL AND NOT EXISTS (
      SELECT FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
      WHERE i.indrelid = relation AND i.indisunique AND i.indisvalid AND i.indpred IS NULL
        AND (i.indnkeyatts = 1 OR kind = 'p') AND a.attname = the_key) THEN
    fault := format('%s exists, but its %s is not unique: add a primary key or a unique index on it, then run the same again',
      the_table, the_key);
  END IF;
  SELECT string_agg(DISTINCT a.attname::text, ', ') INTO found_text
    FROM pg_partition_tree(relation) t JOIN pg_partitioned_table p ON p.partrelid = t.relid
    JOIN pg_attribute a ON a.attrelid = p.partrelid AND a.attnum = ANY (p.partattrs::smallint[])
   WHERE cardinality(the_unique) > 0 AND a.attname <> ALL (the_unique);
  IF fault IS NULL AND found_text IS NOT NULL THEN
    fault := format('%s is partitioned by %s, so PostgreSQL cannot keep (%s) unique over all of its partitions: '
      'partition it by these columns, or by one of them, then run the same again', the_table, found_text,
      array_to_string(the_unique, ', '));
  END IF;
  IF fault IS NULL AND pipestate.is_true(format('EXISTS (SELECT FROM %s WHERE %I IS NULL)', the_table, the_key), path) THEN
    fault := format('%s has rows without a %s, by which the migrations find rows: give them one or delete them, then run the same again',
      the_table, the_key);
  END IF;
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = fault;
  END IF;
END $$;
CREATE OR REPLACE PROCEDURE pipestate.replace_comment(
  the_table text, the_comment text, the_revision text, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  former text := obj_description(pipestate.resolve(the_table, path), 'pg_class');
BEGIN
  IF former IS DISTINCT FROM the_comment THEN
    INSERT INTO pipestate.soft_drop (revision, kind, schema_name, table_name, name, removed, state)
    VALUES (the_revision, 'comment', '', the_table, the_table, jsonb_build_object('comment', former), 'absent');
  END IF;
  PERFORM pipestate.execute(format('COMMENT ON TABLE %s IS %L', the_table, the_comment), path);
END $$;
CREATE OR REPLACE PROCEDURE pipestate.restore_comment(
  the_table text, the_comment text, the_revision text, path text DEFAULT current_setting('search_path'))
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  former text;
BEGIN
  SELECT d.removed ->> 'comment' INTO former FROM pipestate.soft_drop d
   WHERE d.kind = 'comment' AND d.name = the_table AND d.revision = the_revision ORDER BY d.id DESC LIMIT 1;
  DELETE FROM pipestate.soft_drop d WHERE d.kind = 'comment' AND d.name = the_table AND d.revision = the_revision;
  IF obj_description(pipestate.resolve(the_table, path), 'pg_class') = the_comment THEN
    PERFORM pipestate.execute(format('COMMENT ON TABLE %s IS %L', the_table, former), path);
  END IF;
END $$;
CREATE OR REPLACE FUNCTION pipestate.this_database() RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  server text := '-';
BEGIN
  IF has_function_privilege('pg_control_system()', 'EXECUTE') THEN
    SELECT system_identifier::text INTO server FROM pg_control_system();
  END IF;
  RETURN (SELECT format('%s/%s/%s', server, oid, datname) FROM pg_database WHERE datname = current_database());
END
$$;
CREATE OR REPLACE FUNCTION pipestate.version() RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$ SELECT '1.ec6251729d4f' $$;
CREATE OR REPLACE PROCEDURE pipestate.require_version(wanted text, with_tables boolean DEFAULT true)
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  other_owner record;
BEGIN
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
      OR EXISTS (SELECT FROM pg_class c WHERE c.relowner = o.owner AND c.oid = to_regclass(nullif(current_setting('pipestate.version_table', true), ''))))) LIMIT 1;
  IF other_owner.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('%s belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', other_owner.what, other_owner.owner, other_owner.me);
  ELSIF with_tables AND to_regclass('pipestate.run') IS NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'this database has no ledger: run `pipestate ledger install`, or a revision that '
      'calls install_ledger()';
  ELSIF pipestate.version() <> wanted THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the functions of the ledger have version %s, and this script needs %s: '
      'update them with pipestate ledger install, or write the script again', pipestate.version(), wanted);
  ELSIF with_tables AND NOT pipestate.may_record() THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('this role may not record in the ledger. As its owner: '
      'CALL pipestate.grant_migrating(%L)', current_user);
  END IF;
  PERFORM set_config('pipestate.compared', 'yes', false);
END $$;
  REVOKE ALL ON ALL ROUTINES IN SCHEMA pipestate FROM PUBLIC;
  -- Views call them: they read only catalogues, which everybody may read.
  GRANT EXECUTE ON FUNCTION pipestate.schema_definitions(), pipestate.schema_method(), pipestate.this_database() TO PUBLIC;
  PERFORM set_config('search_path', path_before, true);
END $pipestate$;

CALL pipestate.require_shape('sites', 'subdomain', ARRAY['subdomain']);

CALL pipestate.require_shape('site_progress', 'subdomain',
  ARRAY['subdomain', 'current_stage', 'stage_total', 'stage_completed', 'started_at', 'updated_at'],
  the_times => ARRAY['started_at', 'updated_at']);

CALL pipestate.require_shape('content_items', 'id', ARRAY['id']);

CALL pipestate.require_shape('jobs', 'id', ARRAY['id', 'status', 'created_at']);

CALL pipestate.refuse_if($$to_regclass('site_progress') IS NULL AND pipestate.has_columns('sites', ARRAY['current_stage', 'ocr_total'], ARRAY['status', 'last_updated'])$$,
  'this database is already contracted: sites has its counters, and neither the legacy columns nor site_progress are left. Stamp it: alembic stamp 0001, then alembic upgrade head adds what is missing');

CALL pipestate.bring_back_table('sites', '0001');

CALL pipestate.create_table('sites', $$CREATE TABLE sites (
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
)$$, the_revision => '0001');

CALL pipestate.bring_back_table('site_progress', '0001');

CALL pipestate.create_table('site_progress', $$CREATE TABLE site_progress (
  subdomain VARCHAR NOT NULL,
  current_stage VARCHAR,
  stage_total INTEGER DEFAULT 0 NOT NULL,
  stage_completed INTEGER DEFAULT 0 NOT NULL,
  started_at TIMESTAMP WITH TIME ZONE,
  updated_at TIMESTAMP WITH TIME ZONE,
  CONSTRAINT pk_site_progress PRIMARY KEY (subdomain)
)$$, the_revision => '0001');

CALL pipestate.bring_back_table('content_items', '0001');

CALL pipestate.create_table('content_items', $$CREATE TABLE content_items (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY,
  CONSTRAINT pk_content_items PRIMARY KEY (id)
)$$, the_revision => '0001');

CALL pipestate.bring_back_table('jobs', '0001');

CALL pipestate.create_table('jobs', $$CREATE TABLE jobs (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY,
  customer_id VARCHAR,
  package_size INTEGER,
  status VARCHAR DEFAULT 'pending' NOT NULL,
  created_at TIMESTAMP WITH TIME ZONE DEFAULT CURRENT_TIMESTAMP NOT NULL,
  CONSTRAINT pk_jobs PRIMARY KEY (id)
)$$, the_revision => '0001');

CALL pg_temp.pipestate_end_revision('0001', 'upgrade', 'refuse', NULL, 'DO $pipestate$
DECLARE
  path_before text := pg_catalog.current_setting(''search_path'');
  other_owner record;
  todo text;
BEGIN
  PERFORM pg_catalog.set_config(''search_path'', ''pg_catalog, pg_temp'', true);
  IF current_user = ''pipestate'' AND path_before LIKE ''%$user%'' THEN
    RAISE EXCEPTION USING ERRCODE = ''PSTAT'', MESSAGE =
      ''the role pipestate has "$user" on its search_path, so the schema pipestate would stand before public ''
      ''for it: connect as another role, or ALTER ROLE pipestate SET search_path = public'';
  END IF;
  SELECT o.what, pg_get_userbyid(o.owner)::text AS owner, current_user::text AS me INTO other_owner
    FROM (SELECT concat(''the schema '', n.nspname) AS what, n.nspowner AS owner
    FROM pg_namespace n WHERE n.nspname IN (''pipestate'', ''pipestate_archive'')
    UNION ALL
    SELECT concat(n.nspname, ''.'', c.relname), c.relowner FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = ''pipestate'' AND c.relkind IN (''r'', ''p'', ''v'', ''m'', ''f'')
    UNION ALL
    SELECT concat(n.nspname, ''.'', p.proname, ''()''), p.proowner FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname IN (''pipestate'', ''pipestate_archive'')) AS o
    WHERE NOT ((o.owner = to_regrole(quote_ident(current_user))::oid
      OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_database d WHERE d.datname = current_database() AND d.datdba = o.owner)
      OR (NOT current_setting(''is_superuser'') = ''on'' AND (pg_has_role(o.owner, ''USAGE'') OR pg_has_role(o.owner,
        CASE WHEN current_setting(''server_version_num'')::integer >= 160000 THEN ''SET'' ELSE ''MEMBER'' END)))
      OR EXISTS (SELECT FROM pg_class c WHERE c.relowner = o.owner AND c.oid = to_regclass(nullif(current_setting(''pipestate.version_table'', true), '''')))) AND pg_has_role(o.owner, ''USAGE'')) LIMIT 1;
  IF other_owner.what IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = ''PSTAT'', MESSAGE = format(
      ''%s belongs to', false);

CALL pg_temp.pipestate_record('upgrade', '0001', 'The legacy schema: created where absent, adopted where present.', '174ededaa3d747d7bb6d9bb2a0a58ef96950e801ae52e5accf56ae022c8c4c88', '"pipestate_alembic_version"', 'a person', NULL);

INSERT INTO pipestate_alembic_version (version_num) VALUES ('0001') RETURNING pipestate_alembic_version.version_num;

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
    CALL pipestate.record_schema('0001', 'a person');
  END IF;
  PERFORM set_config('search_path', path, true);
EXCEPTION WHEN OTHERS THEN
  RAISE WARNING 'the schema was not recorded, so `pipestate drift` compares with an older record: %', SQLERRM;
END $record$;

