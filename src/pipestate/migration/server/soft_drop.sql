-- Stop with a sentence. Clients show it as it is.
CREATE OR REPLACE FUNCTION pipestate.refuse(the_message text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = the_message;
END
$$;

-- Leave a line for whoever migrates: a driver may keep the server's WARNING to itself.
CREATE OR REPLACE FUNCTION pipestate.warn(the_message text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE WARNING '%', the_message;
  PERFORM set_config('pipestate.said',
    concat_ws(E'\n', nullif(current_setting('pipestate.said', true), ''), the_message), false);
END
$$;

-- Leave a line that is good to know.
CREATE OR REPLACE FUNCTION pipestate.tell(the_message text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  RAISE NOTICE '%', the_message;
  PERFORM set_config('pipestate.told',
    concat_ws(E'\n', nullif(current_setting('pipestate.told', true), ''), the_message), false);
END
$$;

-- Refuse to drop anything of these tables outside a passed gate of the revision that has locked them.
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

-- Say who may write later with an older number or an older clock: the next transaction's number, those that run now, with
-- their subtransactions, and when the oldest began. Its now() may become the time of change of a row that it writes later.
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

-- Hide columns of a table under opaque names. Values stay where they are; what could make a write fail is removed and
-- recorded; rows that exist now are marked without being touched.
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

-- List what must be removed with the columns, because it could make a write fail: each with the statement that drops it,
-- and what restores it. Defaults, foreign keys, CHECKs, NOT NULL, triggers that are named, and unique indexes and exclusion
-- constraints that also read visible columns, treat NULLs as equal, or get a value for new rows: a default, or a derived one.
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

-- Add, to each unique index that is removed, the end of its definition under the hidden names: it is built from that
-- while the columns are still hidden.
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

-- List the indexes and statistics that stay on the hidden columns, each with its opaque name: a real drop would have
-- taken them away, and freed their names.
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

-- Move tables, with their partitions, into the archive: under opaque names, so that those of tables, indexes and
-- sequences are free. Foreign keys among them stay; those to other tables would hold back deletes there, and are removed.
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

-- Refuse to drop for good what a publication sends, unless a signed backup must pass for the contract.
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

-- Drop columns at once and for good, behind the same gate. A published table demands a signed backup.
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

-- Drop tables at once and for good, together: foreign keys and inheritance among them hold nothing.
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
