-- The relation of that name in the schema of this one.
CREATE OR REPLACE FUNCTION pipestate.beside(relation regclass, name text) RETURNS regclass
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT to_regclass(format('%I.%I', n.nspname, name)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
   WHERE c.oid = relation AND name IS NOT NULL
$$;

-- Compare an index that is wanted with the one of that name, and with the spare one that would take its place.
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

-- Before an index is built: refuse one of that name on another table, or one that cannot be replaced; remember a new one.
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

-- List the statements that build an index beside the traffic. An invalid one is what an interrupted build left. In place
-- of another definition the index is built under a spare name.
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

-- After the build: refuse to go on without the index; under a short lock let the spare one take the place of another.
-- One that was built just now and reads otherwise is what the server makes of this very definition.
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

-- Name the index of a partition.
CREATE OR REPLACE FUNCTION pipestate.partition_index(relation regclass, the_index text) RETURNS text
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN octet_length(n) <= 63 THEN n ELSE concat('part_', md5(n)) END
    FROM pg_class c, concat(c.relname, '_', the_index) AS n WHERE c.oid = relation
$$;

-- Say whether a table is partitioned; with an index, whether that is also missing or not valid.
CREATE OR REPLACE FUNCTION pipestate.is_partitioned(the_table text, without_index text DEFAULT NULL, path text DEFAULT current_setting('search_path')) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  SELECT EXISTS (SELECT FROM pg_class c WHERE c.oid = pipestate.resolve(the_table, path) AND c.relkind = 'p'
                 AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indexrelid = pipestate.beside(c.oid, without_index) AND i.indisvalid AND i.indisready))
$$;

-- List the statements that build the missing indexes of partitions beside the traffic; half-built ones are dropped first.
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

-- Create the index of a partitioned table, and of partitioned tables below it, without those of the partitions
-- (ON ONLY): nothing is scanned, and it is not valid until all of theirs are attached. A unique one that lacks a
-- column of the partitions' key is refused.
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

-- Attach the indexes of the partitions, from the leaves up, to that of the partitioned table. The last one makes it
-- valid. The caller holds the lock on all of them.
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

-- Drop indexes that a revision created, under a short lock on their tables.
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
