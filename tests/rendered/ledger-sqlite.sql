CREATE TABLE IF NOT EXISTS pipestate_object (
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  revision TEXT NOT NULL,
  created_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')) NOT NULL,
  CONSTRAINT pk_pipestate_object PRIMARY KEY (kind, name)
);
CREATE TABLE IF NOT EXISTS pipestate_run (
  id INTEGER NOT NULL,
  recorded_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')) NOT NULL,
  event TEXT NOT NULL,
  actor TEXT NOT NULL,
  runbook TEXT,
  phase TEXT,
  gate TEXT,
  runbook_sha256 TEXT,
  revision TEXT,
  passed INTEGER DEFAULT 0 NOT NULL,
  failed INTEGER DEFAULT 0 NOT NULL,
  warned INTEGER DEFAULT 0 NOT NULL,
  errored INTEGER DEFAULT 0 NOT NULL,
  skipped INTEGER DEFAULT 0 NOT NULL,
  duration_ms FLOAT,
  reason TEXT,
  role TEXT,
  title TEXT,
  file_sha256 TEXT,
  version_table TEXT,
  dropped JSON,
  phase_sha256 TEXT,
  "database" TEXT,
  CONSTRAINT pk_pipestate_run PRIMARY KEY (id)
);
CREATE INDEX IF NOT EXISTS idx_pipestate_run_phase ON pipestate_run (runbook, phase, recorded_at);
CREATE TABLE IF NOT EXISTS pipestate_result (
  id INTEGER NOT NULL,
  run_id INTEGER NOT NULL,
  check_id TEXT NOT NULL,
  outcome TEXT NOT NULL,
  level TEXT NOT NULL,
  required TEXT,
  observed JSON,
  message TEXT,
  duration_ms FLOAT,
  CONSTRAINT pk_pipestate_result PRIMARY KEY (id),
  CONSTRAINT fk_pipestate_result_run FOREIGN KEY(run_id) REFERENCES pipestate_run (id) ON DELETE CASCADE
);
CREATE INDEX IF NOT EXISTS idx_pipestate_result_run ON pipestate_result (run_id);
CREATE TABLE IF NOT EXISTS pipestate_attestation (
  id INTEGER NOT NULL,
  signed_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')) NOT NULL,
  runbook TEXT NOT NULL,
  phase TEXT NOT NULL,
  name TEXT NOT NULL,
  person TEXT NOT NULL,
  note TEXT,
  revision TEXT,
  text_sha256 TEXT,
  "database" TEXT,
  CONSTRAINT pk_pipestate_attestation PRIMARY KEY (id),
  CONSTRAINT ck_pipestate_attestation_person CHECK (trim(person) <> '')
);
CREATE INDEX IF NOT EXISTS idx_pipestate_attestation_name ON pipestate_attestation (runbook, phase, name, signed_at);
CREATE TABLE IF NOT EXISTS pipestate_observation (
  id INTEGER NOT NULL,
  observed_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')) NOT NULL,
  name TEXT NOT NULL,
  value FLOAT NOT NULL,
  source TEXT NOT NULL,
  actor TEXT NOT NULL,
  revision TEXT,
  CONSTRAINT pk_pipestate_observation PRIMARY KEY (id)
);
CREATE INDEX IF NOT EXISTS idx_pipestate_observation_name ON pipestate_observation (name, observed_at, id);
CREATE TABLE IF NOT EXISTS pipestate_backfill_progress (
  id INTEGER NOT NULL,
  runbook TEXT NOT NULL,
  name TEXT NOT NULL,
  table_name TEXT NOT NULL,
  key_column TEXT NOT NULL,
  sql_sha256 TEXT NOT NULL,
  actor TEXT NOT NULL,
  revision TEXT,
  first_key TEXT,
  last_key TEXT,
  rows_seen BIGINT DEFAULT 0 NOT NULL,
  rows_expected BIGINT DEFAULT 0 NOT NULL,
  rows_updated BIGINT DEFAULT 0 NOT NULL,
  rows_left BIGINT,
  batches INTEGER DEFAULT 0 NOT NULL,
  started_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')) NOT NULL,
  updated_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')) NOT NULL,
  finished_at DATETIME,
  paused_at DATETIME,
  paused_by TEXT,
  batch_rows INTEGER,
  CONSTRAINT pk_pipestate_backfill_progress PRIMARY KEY (id)
);
CREATE INDEX IF NOT EXISTS idx_pipestate_backfill_progress_name ON pipestate_backfill_progress (runbook, name, id);
CREATE TABLE IF NOT EXISTS pipestate_rehearsal (
  id INTEGER NOT NULL,
  rehearsed_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')) NOT NULL,
  actor TEXT NOT NULL,
  revision TEXT,
  target TEXT,
  files JSON NOT NULL,
  clone TEXT NOT NULL,
  rows BIGINT DEFAULT 0 NOT NULL,
  longest_wait_ms FLOAT,
  idle_wait_ms FLOAT,
  bounded BOOLEAN,
  ok BOOLEAN,
  duration_ms FLOAT,
  kind TEXT DEFAULT 'rehearse' NOT NULL,
  tables JSON,
  scale FLOAT,
  statements INTEGER,
  broken INTEGER,
  changed INTEGER,
  unprepared INTEGER,
  "database" TEXT,
  watch JSON,
  CONSTRAINT pk_pipestate_rehearsal PRIMARY KEY (id)
);
CREATE TABLE IF NOT EXISTS pipestate_statement_calls (
  id INTEGER NOT NULL,
  observed_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')) NOT NULL,
  actor TEXT NOT NULL,
  contract TEXT NOT NULL,
  server TEXT NOT NULL,
  "database" TEXT,
  fault TEXT,
  started_at DATETIME,
  stats_reset DATETIME,
  evictions BIGINT,
  standbys INTEGER DEFAULT 0 NOT NULL,
  calls JSON NOT NULL,
  CONSTRAINT pk_pipestate_statement_calls PRIMARY KEY (id)
);
CREATE INDEX IF NOT EXISTS idx_pipestate_statement_calls_contract ON pipestate_statement_calls (contract, id);
CREATE TABLE IF NOT EXISTS pipestate_schema_record (
  id INTEGER NOT NULL,
  recorded_at DATETIME DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')) NOT NULL,
  revision TEXT,
  actor TEXT NOT NULL,
  method TEXT NOT NULL,
  xid TEXT,
  catalogues JSON,
  objects JSON NOT NULL,
  CONSTRAINT pk_pipestate_schema_record PRIMARY KEY (id)
);
DROP VIEW IF EXISTS pipestate_observed;
CREATE VIEW pipestate_observed AS
SELECT o.name,
       o.value,
       CASE WHEN unixepoch(o.observed_at) <= unixepoch('now') + 300
            THEN max(0, unixepoch('now') - unixepoch(o.observed_at)) END AS age_seconds,
       o.observed_at,
       o.source,
       o.actor,
       group_concat(printf('%.15g', o.value), ', ') OVER (
         PARTITION BY o.name ORDER BY julianday(o.observed_at) DESC, o.id DESC
         ROWS BETWEEN CURRENT ROW AND 9 FOLLOWING
       ) AS last_ten,
       unixepoch(o.observed_at) - unixepoch(lag(o.observed_at) OVER (
         PARTITION BY o.name ORDER BY julianday(o.observed_at), o.id
       )) AS gap_seconds
FROM pipestate_observation o
WHERE unixepoch(o.observed_at) IS NOT NULL;
DROP VIEW IF EXISTS pipestate_latest_observation;
CREATE VIEW pipestate_latest_observation AS
SELECT o.name,
       o.value,
       CASE WHEN unixepoch(o.observed_at) <= unixepoch('now') + 300
            THEN max(0, unixepoch('now') - unixepoch(o.observed_at)) END AS age_seconds,
       o.observed_at,
       o.source,
       o.actor,
       (SELECT group_concat(printf('%.15g', ten.value), ', ')
        FROM (SELECT t.value FROM pipestate_observation t
              WHERE t.name = o.name AND unixepoch(t.observed_at) IS NOT NULL
              ORDER BY julianday(t.observed_at) DESC, t.id DESC LIMIT 10) AS ten) AS last_ten
FROM (SELECT DISTINCT name FROM pipestate_observation) AS known
CROSS JOIN pipestate_observation o ON o.id = (
  SELECT t.id FROM pipestate_observation t
  WHERE t.name = known.name AND unixepoch(t.observed_at) IS NOT NULL
  ORDER BY julianday(t.observed_at) DESC, t.id DESC LIMIT 1
);
DROP VIEW IF EXISTS pipestate_soak_since;
CREATE VIEW pipestate_soak_since AS
WITH written AS (
  SELECT r.runbook, r.phase, r.id, r.actor, r.recorded_at, r.gate, julianday(r.recorded_at) AS day,
         r.phase_sha256 <> first_value(r.phase_sha256) OVER (
           PARTITION BY r.runbook, r.phase ORDER BY julianday(r.recorded_at) DESC, r.id DESC) AS is_other_text
  FROM pipestate_run r WHERE r.event = 'verify'
), record AS (
  SELECT r.runbook, r.phase, r.id, r.actor, r.recorded_at, r.day, unixepoch(r.recorded_at) AS second,
         r.gate IS 'open' AS is_open,
         coalesce(unixepoch(r.recorded_at) <= unixepoch('now') + 300, 0)
           AND count(*) FILTER (WHERE r.is_other_text) OVER back = 0 AS counts,
         count(*) FILTER (WHERE r.gate IS NOT 'open') OVER back AS closed
  FROM written r
  WINDOW back AS (PARTITION BY r.runbook, r.phase ORDER BY r.day DESC, r.id DESC)
), counted AS (
  SELECT r.runbook, r.phase, r.recorded_at, r.second,
         r.is_open AND r.counts AND r.closed = 0 AS in_streak,
         row_number() OVER back AS place,
         count(*) FILTER (WHERE r.is_open AND r.counts AND r.closed = 0) OVER back AS records,
         count(*) FILTER (WHERE r.is_open AND r.counts AND r.closed = 0) OVER whole AS of_all,
         coalesce(min(r.second) FILTER (WHERE r.is_open AND r.counts AND r.closed = 0) OVER (
           back ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), unixepoch('now')) AS next_second,
         max(r.recorded_at) OVER whole AS last_record_at,
         max(r.second) OVER whole AS last_second,
         max(r.recorded_at) FILTER (WHERE NOT r.is_open) OVER whole AS last_closed_at,
         max(r.actor) FILTER (WHERE NOT r.is_open AND r.closed = 1) OVER whole AS last_closed_by
  FROM record r
  WINDOW whole AS (PARTITION BY r.runbook, r.phase),
         back AS (PARTITION BY r.runbook, r.phase ORDER BY r.day DESC, r.id DESC)
), streak AS (
  SELECT c.*,
         CASE WHEN c.in_streak THEN max(0, unixepoch('now') - c.second) END AS open_s,
         max(CASE WHEN c.in_streak THEN max(0, c.next_second - c.second) END) OVER (
           PARTITION BY c.runbook, c.phase ORDER BY c.place) AS gap_s,
         CASE WHEN c.last_second <= unixepoch('now') + 300
              THEN max(0, unixepoch('now') - c.last_second) END AS last_s
  FROM counted c
)
SELECT s.runbook,
       s.phase,
       s.records,
       CASE WHEN s.in_streak THEN s.recorded_at END AS open_since,
       s.last_record_at,
       (s.open_s * 100 / 86400) / 100.0 AS days_open,
       ((s.last_s * 100 + 3599) / 3600) / 100.0 AS hours_since_last_record,
       ((s.gap_s * 100 + 3599) / 3600) / 100.0 AS longest_gap_hours,
       s.last_closed_at,
       s.last_closed_by
FROM streak s
WHERE s.in_streak OR (s.of_all = 0 AND s.place = 1);
DROP VIEW IF EXISTS pipestate_soak;
CREATE VIEW pipestate_soak AS
SELECT s.runbook,
       s.phase,
       s.records,
       s.open_since,
       s.last_record_at,
       s.days_open,
       s.hours_since_last_record,
       s.longest_gap_hours,
       s.last_closed_at,
       s.last_closed_by
FROM (SELECT t.*, row_number() OVER (PARTITION BY t.runbook, t.phase ORDER BY t.records DESC) AS place
      FROM pipestate_soak_since t) AS s
WHERE s.place = 1;
DROP VIEW IF EXISTS pipestate_sign_off;
CREATE VIEW pipestate_sign_off AS
SELECT a.runbook,
       a.phase,
       a.name,
       a.person,
       a.note,
       a.revision,
       a.signed_at,
       CASE WHEN unixepoch(a.signed_at) <= unixepoch('now') + 300
            THEN max(0, unixepoch('now') - unixepoch(a.signed_at)) END AS age_seconds,
       a.text_sha256
FROM pipestate_attestation a;
DROP VIEW IF EXISTS pipestate_backfill;
CREATE VIEW pipestate_backfill AS
SELECT p.runbook,
       p.name AS id,
       p.table_name,
       p.first_key,
       p.last_key,
       p.rows_updated,
       p.rows_left,
       p.batches,
       CASE WHEN p.finished_at IS NOT NULL THEN 100
            WHEN p.rows_expected > 0 THEN min(99, 100 * p.rows_seen / p.rows_expected)
            ELSE 0 END AS percent,
       p.started_at,
       p.updated_at,
       p.finished_at,
       p.actor,
       p.paused_at,
       p.paused_by,
       p.batch_rows
FROM pipestate_backfill_progress p
WHERE p.id = (SELECT max(latest.id) FROM pipestate_backfill_progress latest
              WHERE latest.runbook = p.runbook AND latest.name = p.name);
DROP VIEW IF EXISTS pipestate_rehearsed;
CREATE VIEW pipestate_rehearsed AS
SELECT f.key AS revision,
       r.longest_wait_ms,
       r.idle_wait_ms,
       r.bounded,
       r.ok,
       r.rows,
       CASE WHEN unixepoch(r.rehearsed_at) <= unixepoch('now') + 300
            THEN max(0, unixepoch('now') - unixepoch(r.rehearsed_at)) END AS age_seconds,
       r.rehearsed_at,
       r.actor,
       r.clone,
       r.tables,
       r.scale
FROM pipestate_rehearsal r, json_each(r.files) f
WHERE 0;
DROP VIEW IF EXISTS pipestate_compat;
CREATE VIEW pipestate_compat AS
SELECT f.key AS revision,
       r.statements,
       r.broken,
       r.changed,
       r.unprepared,
       r.ok,
       CASE WHEN unixepoch(r.rehearsed_at) <= unixepoch('now') + 300
            THEN max(0, unixepoch('now') - unixepoch(r.rehearsed_at)) END AS age_seconds,
       r.rehearsed_at,
       r.actor,
       r.clone
FROM pipestate_rehearsal r, json_each(r.files) f
WHERE 0;
DROP VIEW IF EXISTS pipestate_schema_objects;
CREATE VIEW pipestate_schema_objects AS
SELECT o.schema, o.kind, o.name, o.definition AS digest
FROM (
-- Every object of a file with its definition, without pipestate's own.
SELECT '' AS schema, 'column' AS kind, m.name || '.' || c.name AS name,
       c.type || CASE WHEN c."notnull" THEN ', not null' ELSE '' END || coalesce(', default ' || c.dflt_value, '')
         || CASE WHEN c.pk THEN ', key' ELSE '' END AS definition, NULL AS rights, 0 AS left_out
FROM sqlite_master m JOIN pragma_table_xinfo(m.name) c
WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite!_%' ESCAPE '!' AND m.name NOT LIKE 'pipestate!_%' ESCAPE '!'
UNION ALL
SELECT '', m.type, m.name, CASE WHEN m.type = 'table' THEN '' ELSE coalesce(m.sql, '') END, NULL, 0
FROM sqlite_master m
WHERE m.name NOT LIKE 'sqlite!_%' ESCAPE '!' AND m.tbl_name NOT LIKE 'pipestate!_%' ESCAPE '!'
UNION ALL
SELECT '', 'foreign key', m.name || '.' || f."from",
       f."table" || '.' || coalesce(f."to", '') || ' on delete ' || f.on_delete, NULL, 0
FROM sqlite_master m JOIN pragma_foreign_key_list(m.name) f
WHERE m.type = 'table' AND m.name NOT LIKE 'pipestate!_%' ESCAPE '!'

) AS o;
DROP VIEW IF EXISTS pipestate_schema_method;
CREATE VIEW pipestate_schema_method AS SELECT 'SQLite, d4c72a56' AS method;
DROP VIEW IF EXISTS pipestate_drift;
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
DROP VIEW IF EXISTS pipestate_disuse;
CREATE VIEW pipestate_disuse AS
SELECT r.id AS revision, NULL AS days_unused, NULL AS unused_since, NULL AS why, 0 AS observations,
       NULL AS last_observed_at, NULL AS standbys, 0 AS statements
FROM pipestate_rehearsal r WHERE 0;
DROP VIEW IF EXISTS pipestate_running_release;
CREATE VIEW pipestate_running_release AS
SELECT NULL AS pid, NULL AS role, NULL AS application_name, NULL AS application, NULL AS release, NULL AS connected_at
WHERE 0;
