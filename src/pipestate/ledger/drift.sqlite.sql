-- Drift on SQLite, column by column that of drift.postgresql.sql. The digest of an object is its definition.
CREATE VIEW pipestate_schema_objects AS
SELECT o.schema, o.kind, o.name, o.definition AS digest
FROM (
<<definitions>>
) AS o;

CREATE VIEW pipestate_schema_method AS SELECT 'SQLite, <<method>>' AS method;

CREATE VIEW pipestate_drift AS
WITH last AS (
  SELECT r.recorded_at, r.revision, r.method, r.objects FROM pipestate_schema_record r ORDER BY r.id DESC LIMIT 1
), recorded AS (
  SELECT each.value ->> 0 AS schema, each.value ->> 1 AS kind, each.value ->> 2 AS name, each.value ->> 3 AS digest
  FROM last, json_each(last.objects) AS each
), difference AS (
  SELECT r.kind, r.schema, r.name, CASE WHEN n.name IS NULL THEN 'removed' ELSE 'changed' END AS change
  FROM recorded r LEFT JOIN pipestate_schema_objects n ON n.kind = r.kind AND n.name = r.name
  WHERE n.digest IS NOT r.digest
  UNION ALL
  SELECT n.kind, n.schema, n.name, 'added'
  FROM pipestate_schema_objects n LEFT JOIN recorded r ON n.kind = r.kind AND n.name = r.name
  WHERE r.name IS NULL
)
SELECT d.kind, d.schema, d.name, d.change, last.revision, last.recorded_at
FROM last JOIN pipestate_schema_method USING (method) CROSS JOIN difference d
UNION ALL
SELECT 'server', '', last.method || ' → ' || now.method, 'changed', last.revision, last.recorded_at
FROM last JOIN pipestate_schema_method now ON now.method <> last.method;
