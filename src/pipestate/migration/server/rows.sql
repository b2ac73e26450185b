-- Say whether a row of the catalogue was written by this transaction, or below one of its savepoints.
CREATE OR REPLACE FUNCTION pipestate.is_of_this_transaction(writer xid) RETURNS boolean
LANGUAGE sql SET search_path = pg_catalog, pg_temp AS $$
  -- A running transaction may be above the snapshot; a writer far above it is of the epoch before.
  SELECT pg_current_xact_id_if_assigned() IS NOT NULL AND pg_xact_status((x.next - x.next % 4294967296 + w.low
      - CASE WHEN w.low - x.next % 4294967296 > 2147483648 THEN 4294967296 ELSE 0 END)::text::xid8) = 'in progress'
    FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::numeric) AS x (next), (SELECT writer::text::numeric) AS w (low)
   WHERE w.low > 2 AND (x.next > 4294967296 OR w.low - x.next % 4294967296 <= 2147483648)
$$;

-- Say whether a table held rows before this transaction, or holds some now. A DELETE or TRUNCATE of this transaction
-- does not make it empty; a table that this transaction created was never filled.
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
