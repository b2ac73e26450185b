-- Attach the indexes of the partitions, from the leaves up, to that of the partitioned table. The last one makes it
-- valid. The caller holds the lock on all of them.
--
-- the_table regclass, the_index text
DECLARE
  member record;
BEGIN
  IF (SELECT relkind FROM pg_class WHERE oid = the_table) IS DISTINCT FROM 'p' THEN RETURN; END IF;
  FOR member IN
    WITH tree AS (
      SELECT t.relid, t.parentrelid, t.level, n.nspname,
             CASE WHEN t.level = 0 THEN the_index
                  WHEN octet_length(c.relname || '_' || the_index) <= 63 THEN c.relname || '_' || the_index
                  ELSE 'part_' || md5(c.relname || '_' || the_index) END AS index_name
      FROM pg_partition_tree(the_table) t JOIN pg_class c ON c.oid = t.relid
      JOIN pg_namespace n ON n.oid = c.relnamespace
    )
    SELECT tree.relid, to_regclass(format('%I.%I', tree.nspname, tree.index_name)) AS own,
           to_regclass(format('%I.%I', above.nspname, above.index_name)) AS above
    FROM tree JOIN tree above ON above.relid = tree.parentrelid ORDER BY tree.level DESC
  LOOP
    CONTINUE WHEN EXISTS (SELECT FROM pg_inherits i JOIN pg_index x ON x.indexrelid = i.inhrelid
                          WHERE i.inhparent = member.above AND x.indrelid = member.relid);
    IF member.own IS NULL THEN
      RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format(
        '%s became a partition of %s while the index %s was built: run the same again, it goes on from here',
        member.relid::regclass, the_table, the_index);
    END IF;
    EXECUTE format('ALTER INDEX %s ATTACH PARTITION %s', member.above, member.own);
  END LOOP;
END
