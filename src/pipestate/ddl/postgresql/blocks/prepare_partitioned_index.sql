-- Create the index of a partitioned table, and of partitioned tables below it, without those of the partitions
-- (ON ONLY): nothing is scanned, and it is not valid until all of theirs are attached. A unique one that lacks a
-- column of the partitions' key is refused.
--
-- the_table regclass, the_index text, the_create text: CREATE [UNIQUE] INDEX,
-- the_definition text: its columns and predicate
DECLARE
  member record;
BEGIN
  IF (SELECT relkind FROM pg_class WHERE oid = the_table) IS DISTINCT FROM 'p' THEN RETURN; END IF;
  FOR member IN
    SELECT t.relid, t.level, n.nspname, c.relkind,
           CASE WHEN t.level = 0 THEN the_index
                WHEN octet_length(c.relname || '_' || the_index) <= 63 THEN c.relname || '_' || the_index
                ELSE 'part_' || md5(c.relname || '_' || the_index) END AS index_name
    FROM pg_partition_tree(the_table) t JOIN pg_class c ON c.oid = t.relid
    JOIN pg_namespace n ON n.oid = c.relnamespace ORDER BY t.level
  LOOP
    IF member.relkind = 'f' THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s is a foreign table, which cannot have an index of ours: detach it, or build the index of %s by hand',
        member.relid::regclass, the_table);
    END IF;
    CONTINUE WHEN member.relkind <> 'p' OR to_regclass(format('%I.%I', member.nspname, member.index_name)) IS NOT NULL;
    BEGIN
      EXECUTE format('%s %I ON ONLY %s %s', the_create, member.index_name, member.relid::regclass, the_definition);
    EXCEPTION WHEN feature_not_supported THEN
      IF the_create = 'CREATE INDEX' THEN RAISE; END IF;
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s is partitioned by %s, so PostgreSQL cannot keep %s %s unique over all partitions: add these columns to the '
        'index, or partition by columns of the index, then run the same again',
        member.relid::regclass, pg_get_partkeydef(member.relid), the_index, the_definition);
    END;
  END LOOP;
END
