-- Drift: what differs between the schema as it is and as the last guarded run left it. docs/how-to/drift.md explains it.
-- One row a difference from the last record; one row of kind `server` if that cannot be compared any more.
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
