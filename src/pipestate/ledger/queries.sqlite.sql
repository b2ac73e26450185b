-- Queries of pipestate.ledger by name: `database/queries.py` reads them. <<name>> is filled in.

-- name: soft_drops
SELECT aside AS id, kind, name, revision, definition, archived_at AS at FROM pipestate_archive_manifest
 WHERE aside IS NOT NULL ORDER BY archived_at, kind, name

-- name: last_records
SELECT runbook, phase, open_since IS NOT NULL AS is_open,
    unixepoch(last_record_at) * 1.0 AS at,
    CASE WHEN hours_since_last_record IS NOT NULL THEN
        max(0.0, unixepoch('now') - unixepoch(last_record_at)) END AS age_s,
    max(0, unixepoch('now') - unixepoch(open_since)) * 1.0 AS open_s
FROM pipestate_soak ORDER BY runbook, phase

-- name: last_observations
SELECT name, value, unixepoch(observed_at) * 1.0 AS at, age_seconds * 1.0 AS age_s
FROM pipestate_latest_observation ORDER BY name

-- name: ledger_columns
SELECT m.name, group_concat(c.name) FROM sqlite_master m, pragma_table_info(m.name) c
WHERE m.type IN ('table', 'view') AND m.name LIKE 'pipestate!_%' ESCAPE '!' GROUP BY 1

-- name: record_schema
INSERT INTO pipestate_schema_record (revision, actor, method, objects)
SELECT :revision, :actor, (SELECT method FROM pipestate_schema_method),
       (SELECT json_group_array(json_array(o.schema, o.kind, o.name, o.digest)) FROM pipestate_schema_objects o)
