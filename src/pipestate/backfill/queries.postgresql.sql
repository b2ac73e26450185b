-- Queries of pipestate.backfill by name: `database/queries.py` reads them. <<name>> is filled in.

-- name: key
SELECT c.relkind::text AS kind, a.attname IS NOT NULL AS found, NOT a.attnotnull AS nullable,
       format_type(t.oid, -1) AS type, t.typname::text AS typname,
       EXISTS (SELECT FROM pg_index i
               JOIN pg_class ic ON ic.oid = i.indexrelid
               JOIN pg_am m ON m.oid = ic.relam AND m.amname = 'btree'
               WHERE i.indrelid = c.oid AND i.indkey[0] = a.attnum AND i.indisvalid AND i.indpred IS NULL
                 AND i.indcollation[0] = a.attcollation) AS indexed
FROM pg_class c
LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = CAST(:column AS text)
     AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_type declared ON declared.oid = a.atttypid
LEFT JOIN pg_type t ON t.oid = coalesce(nullif(declared.typbasetype, 0), declared.oid)
WHERE c.oid = CAST(:relation AS oid)

-- name: waited_for
-- Sessions that wait for a row or the table wait for this transaction.
SELECT EXISTS (SELECT FROM pg_catalog.pg_locks l
               WHERE NOT l.granted AND pg_catalog.pg_backend_pid() = ANY (pg_catalog.pg_blocking_pids(l.pid)))

-- name: lag
SELECT coalesce(max(extract(epoch FROM replay_lag)), 0)::float8, count(*) FILTER (WHERE state IS NULL),
       coalesce(max(application_name), '')
FROM pg_stat_replication

-- name: wraparound_vacuum
-- Roles without pg_read_all_stats cannot see the activity of autovacuum.
SELECT a.query FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
WHERE a.query LIKE 'autovacuum: %(to prevent wraparound)'
  AND (l.relation = CAST(:relation AS oid) OR l.relation IN (
    SELECT t.relid FROM pg_partition_tree(CAST(:relation AS oid)) t))
LIMIT 1

-- name: who_blocks
SELECT string_agg(DISTINCT format('pid %s (%s, %s)', a.pid, coalesce(nullif(a.application_name, ''), a.usename),
                                  a.state), ', ')
FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid AND l.granted
WHERE l.relation = CAST(:relation AS oid) AND a.pid <> pg_backend_pid()
  AND l.mode IN ('RowShareLock', 'RowExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
                 'AccessExclusiveLock', 'ShareUpdateExclusiveLock')
