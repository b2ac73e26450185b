-- Compare an index that is wanted with the one of that name, and with the spare one that would take its place.
CREATE OR REPLACE FUNCTION pipestate.index_state(
  the_index text, the_table text, the_definition text, is_unique boolean, the_needs text[], the_types text[],
  OUT own regclass, OUT own_is_valid boolean, OUT own_is_other boolean, OUT spare_name text, OUT spare regclass,
  OUT spare_is_valid boolean, OUT is_wanted boolean, OUT is_partitioned boolean, OUT wanted text, OUT actual text) RETURNS record
LANGUAGE plpgsql AS $$
DECLARE
  relation oid := pg_catalog.to_regclass(the_table)::oid;
  place text;
  printed text;
  definition text := the_definition;
  spelling CONSTANT text := '::(character varying|[\w.]+)|[()\s]';
BEGIN
  SELECT n.nspname::text, c.relkind = 'p' INTO place, is_partitioned
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = relation;
  spare_name := pg_catalog.concat('pipestate_new_',
    CASE WHEN pg_catalog.octet_length(the_index) <= 49 THEN the_index ELSE pg_catalog.md5(the_index) END);
  IF place IS NOT NULL THEN
    own := pg_catalog.to_regclass(pg_catalog.format('%I.%I', place, the_index));
    spare := pg_catalog.to_regclass(pg_catalog.format('%I.%I', place, spare_name));
  END IF;
  printed := pg_catalog.split_part(pg_catalog.pg_get_indexdef(own::oid), ' USING btree ', 2);
  IF pg_catalog.strpos(definition, '''') > 0 THEN  -- casts and parentheses depend on the type of an adopted column
    printed := pg_catalog.regexp_replace(printed, spelling, '', 'g');
    definition := pg_catalog.regexp_replace(definition, spelling, '', 'g');
  END IF;
  own_is_valid := EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indexrelid = own::oid AND i.indisvalid AND i.indisready);
  own_is_other := EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indexrelid = own::oid AND (i.indisunique <> is_unique OR printed <> definition));
  spare_is_valid := EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indexrelid = spare::oid AND i.indisvalid AND i.indisready);
  is_wanted := (SELECT pg_catalog.count(*) FROM pg_catalog.pg_attribute a WHERE a.attrelid = relation
                AND a.attname::text = ANY (the_needs) AND NOT a.attisdropped
                AND (pg_catalog.cardinality(the_types) = 0 OR a.atttypid = ANY (the_types::pg_catalog.regtype[]::oid[])))
               = pg_catalog.cardinality(the_needs)::bigint;
  wanted := pg_catalog.format('CREATE %sINDEX %I ON %s %s', CASE WHEN is_unique THEN 'UNIQUE ' ELSE '' END, the_index, the_table, the_definition);
  actual := coalesce(pg_catalog.pg_get_indexdef(own::oid), 'no index');
END $$;

-- Before an index is built: refuse one of that name on another table, or one that cannot be replaced; remember a new one.
CREATE OR REPLACE PROCEDURE pipestate.prepare_index(
  the_index text, the_table text, the_definition text, is_unique boolean DEFAULT false, the_needs text[] DEFAULT '{}',
  the_types text[] DEFAULT '{}', has_partition_steps boolean DEFAULT false, the_revision text DEFAULT NULL)
LANGUAGE plpgsql AS $$
DECLARE
  state record;
  fault text;
BEGIN
  SELECT * INTO state FROM pipestate.index_state(the_index, the_table, the_definition, is_unique, the_needs, the_types);
  IF state.own IS NOT NULL AND NOT EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indexrelid = state.own::oid
                                           AND i.indrelid = pg_catalog.to_regclass(the_table)::oid) THEN
    fault := pg_catalog.format('%s exists, but is no index of %s: %s; wanted: %s. Drop or rename it, then run the same again',
      the_index, the_table, state.actual, state.wanted);
  ELSIF state.is_partitioned AND NOT has_partition_steps THEN
    fault := pg_catalog.format('%s is partitioned, and this script has no steps for that: run the revision online, '
      'or write the script with partitions=True', the_table);
  ELSIF state.own_is_other AND state.is_partitioned THEN
    fault := pg_catalog.format('index %s exists with another definition: %s; wanted: %s. '
      '%s is partitioned, so it is not replaced: drop it, then run the same again', the_index, state.actual, state.wanted, the_table);
  ELSIF state.own_is_other AND EXISTS (SELECT FROM pg_catalog.pg_constraint k WHERE k.conindid = state.own::oid) THEN
    fault := pg_catalog.format('index %s exists with another definition: %s; wanted: %s. It belongs to a '
      'constraint, so it is not replaced: drop or rename the constraint, then run the same again', the_index, state.actual, state.wanted);
  END IF;
  IF fault IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = fault;
  END IF;
  PERFORM pg_catalog.set_config('pipestate.new_index', CASE WHEN state.own_is_valid THEN '' ELSE the_index END, false);
  IF state.own IS NULL AND state.is_wanted THEN
    CALL pipestate.remember('index', the_index, the_revision);
  END IF;
END $$;

-- List the statements that build an index beside the traffic. An invalid one is what an interrupted build left. In place
-- of another definition the index is built under a spare name.
CREATE OR REPLACE FUNCTION pipestate.index_steps(
  the_index text, the_table text, the_definition text, is_unique boolean DEFAULT false, the_needs text[] DEFAULT '{}',
  the_types text[] DEFAULT '{}') RETURNS SETOF text
LANGUAGE plpgsql AS $$
DECLARE
  state record;
  create_index CONSTANT text := CASE WHEN is_unique THEN 'CREATE UNIQUE INDEX' ELSE 'CREATE INDEX' END;
BEGIN
  SELECT * INTO state FROM pipestate.index_state(the_index, the_table, the_definition, is_unique, the_needs, the_types);
  IF state.own IS NOT NULL AND NOT state.own_is_valid THEN
    RETURN NEXT pg_catalog.format('DROP INDEX CONCURRENTLY %s', state.own);
  END IF;
  IF state.spare IS NOT NULL AND NOT (state.spare_is_valid AND state.own_is_valid AND state.own_is_other) THEN
    RETURN NEXT pg_catalog.format('DROP INDEX CONCURRENTLY %s', state.spare);
  END IF;
  IF NOT state.own_is_valid AND state.is_wanted THEN
    RETURN NEXT pg_catalog.format('%s CONCURRENTLY %I ON %s %s', create_index, the_index, the_table, the_definition);
  ELSIF state.own_is_valid AND state.own_is_other AND NOT state.spare_is_valid THEN
    RETURN NEXT pg_catalog.format('%s CONCURRENTLY %I ON %s %s', create_index, state.spare_name, the_table, the_definition);
  END IF;
END $$;

-- After the build: refuse to go on without the index; under a short lock let the spare one take the place of another.
-- One that was built just now and reads otherwise is what the server makes of this very definition.
CREATE OR REPLACE PROCEDURE pipestate.finish_index(
  the_index text, the_table text, the_definition text, is_unique boolean DEFAULT false, the_needs text[] DEFAULT '{}',
  the_types text[] DEFAULT '{}', the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60)
LANGUAGE plpgsql AS $$
DECLARE
  state record;
BEGIN
  SELECT * INTO state FROM pipestate.index_state(the_index, the_table, the_definition, is_unique, the_needs, the_types);
  IF (state.is_wanted AND NOT state.own_is_valid) OR (state.own_is_other AND NOT state.spare_is_valid
      AND pg_catalog.current_setting('pipestate.new_index', true) IS DISTINCT FROM the_index) THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
      'index %s was not built: see the error above, then run the same again', the_index);
  ELSIF state.own_is_other AND state.spare_is_valid THEN
    CALL pipestate.lock_tables(ARRAY[the_table], the_timeout_ms => the_timeout_ms, the_patience_s => the_patience_s);
    EXECUTE pg_catalog.format('DROP INDEX %s', state.own);
    EXECUTE pg_catalog.format('ALTER INDEX %s RENAME TO %I', state.spare, the_index);
    CALL pipestate.say(pg_catalog.format('index %s had another definition (%s): rebuilt as %s', the_index, state.actual, state.wanted));
  ELSIF state.own_is_other THEN
    CALL pipestate.say(pg_catalog.format('index %s: PostgreSQL prints its definition as %s; write it so, else the next run builds it again',
      the_index, pg_catalog.split_part(state.actual, ' USING btree ', 2)));
  END IF;
END $$;

-- Create the index of a partitioned table, and of partitioned tables below it, without those of the partitions
-- (ON ONLY): nothing is scanned, and it is not valid until all of theirs are attached. A unique one that lacks a
-- column of the partitions' key is refused.
CREATE OR REPLACE PROCEDURE pipestate.prepare_partitioned_index(the_table regclass, the_index text, the_create text, the_definition text)
LANGUAGE plpgsql AS $$
DECLARE
  member record;
BEGIN
  IF (SELECT c.relkind = 'p' FROM pg_catalog.pg_class c WHERE c.oid = the_table::oid) IS NOT TRUE THEN RETURN; END IF;
  FOR member IN
    SELECT t.relid, t.level, n.nspname, c.relkind,
           CASE WHEN t.level = 0 THEN the_index
                WHEN pg_catalog.octet_length(pg_catalog.concat(c.relname::text, '_', the_index)) <= 63 THEN pg_catalog.concat(c.relname::text, '_', the_index)
                ELSE pg_catalog.concat('part_', pg_catalog.md5(pg_catalog.concat(c.relname::text, '_', the_index))) END AS index_name
    FROM pg_catalog.pg_partition_tree(the_table) t JOIN pg_catalog.pg_class c ON c.oid = t.relid::oid
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace ORDER BY t.level
  LOOP
    IF member.relkind = 'f' THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
        '%s is a foreign table, which cannot be indexed here: detach it, or build the index of %s by hand',
        member.relid::regclass, the_table);
    END IF;
    CONTINUE WHEN member.relkind <> 'p' OR pg_catalog.to_regclass(pg_catalog.format('%I.%I', member.nspname, member.index_name)) IS NOT NULL;
    BEGIN
      EXECUTE pg_catalog.format('%s %I ON ONLY %s %s', the_create, member.index_name, member.relid::regclass, the_definition);
    EXCEPTION WHEN feature_not_supported THEN
      IF the_create = 'CREATE INDEX' THEN RAISE; END IF;
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
        '%s is partitioned by %s, so PostgreSQL cannot keep %s %s unique over all partitions: add these columns to the '
        'index, or partition by columns of the index, then run the same again',
        member.relid::regclass, pg_catalog.pg_get_partkeydef(member.relid), the_index, the_definition);
    END;
  END LOOP;
END $$;

-- Attach the indexes of the partitions, from the leaves up, to that of the partitioned table. The last one makes it
-- valid. The caller holds the lock on all of them.
CREATE OR REPLACE PROCEDURE pipestate.attach_partition_indexes(the_table regclass, the_index text)
LANGUAGE plpgsql AS $$
DECLARE
  member record;
BEGIN
  IF (SELECT c.relkind = 'p' FROM pg_catalog.pg_class c WHERE c.oid = the_table::oid) IS NOT TRUE THEN RETURN; END IF;
  FOR member IN
    WITH tree AS (
      SELECT t.relid, t.parentrelid, t.level, n.nspname,
             CASE WHEN t.level = 0 THEN the_index
                  WHEN pg_catalog.octet_length(pg_catalog.concat(c.relname::text, '_', the_index)) <= 63 THEN pg_catalog.concat(c.relname::text, '_', the_index)
                  ELSE pg_catalog.concat('part_', pg_catalog.md5(pg_catalog.concat(c.relname::text, '_', the_index))) END AS index_name
      FROM pg_catalog.pg_partition_tree(the_table) t JOIN pg_catalog.pg_class c ON c.oid = t.relid::oid
      JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    )
    SELECT tree.relid, pg_catalog.to_regclass(pg_catalog.format('%I.%I', tree.nspname, tree.index_name)) AS own,
           pg_catalog.to_regclass(pg_catalog.format('%I.%I', above.nspname, above.index_name)) AS above
    FROM tree JOIN tree above ON above.relid = tree.parentrelid ORDER BY tree.level DESC
  LOOP
    CONTINUE WHEN EXISTS (SELECT FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_index x ON x.indexrelid = i.inhrelid
                          WHERE i.inhparent = member.above AND x.indrelid = member.relid);
    IF member.own IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format(
        '%s became a partition of %s while the index %s was built: run the same again: it continues from here',
        member.relid::regclass, the_table, the_index);
    END IF;
    EXECUTE pg_catalog.format('ALTER INDEX %s ATTACH PARTITION %s', member.above, member.own);
  END LOOP;
END $$;

-- Drop indexes that a revision created, under a short lock on their tables.
CREATE OR REPLACE PROCEDURE pipestate.drop_indexes(
  the_indexes text[], is_registered boolean DEFAULT true,
  the_timeout_ms integer DEFAULT 200, the_patience_s double precision DEFAULT 60)
LANGUAGE plpgsql AS $$
DECLARE
  the_index text;
  own text[];
  tables text[];
BEGIN
  SELECT pg_catalog.array_agg(i.indexrelid::pg_catalog.regclass::text), pg_catalog.array_agg(i.indrelid::pg_catalog.regclass::text)
    INTO own, tables FROM pg_catalog.unnest(the_indexes) AS n (name)
    JOIN pg_catalog.pg_index i ON i.indexrelid = pg_catalog.to_regclass(pg_catalog.array_to_string(ARRAY(
           SELECT pg_catalog.quote_ident(part) FROM pg_catalog.unnest(pg_catalog.string_to_array(n.name, '.')) AS part), '.'))::oid
   WHERE pipestate.is_ours('index', n.name, is_registered);
  IF own IS NOT NULL THEN
    CALL pipestate.lock_tables(tables, the_timeout_ms => the_timeout_ms, the_patience_s => the_patience_s);
    EXECUTE pg_catalog.concat('DROP INDEX ', pg_catalog.array_to_string(own, ', '));
  END IF;
  FOREACH the_index IN ARRAY the_indexes LOOP
    CALL pipestate.forget('index', the_index, is_registered);
  END LOOP;
END $$;
