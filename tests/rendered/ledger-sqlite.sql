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
  longest_stall_ms FLOAT,
  noise_ms FLOAT,
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
  CONSTRAINT pk_pipestate_rehearsal PRIMARY KEY (id)
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
WITH record AS (
  SELECT r.runbook, r.phase, r.id, r.actor, r.recorded_at,
         julianday(r.recorded_at) AS day, unixepoch(r.recorded_at) AS second,
         r.gate IS 'open' AS is_open,
         coalesce(unixepoch(r.recorded_at) <= unixepoch('now') + 300, 0) AS is_past,
         count(*) FILTER (WHERE r.gate IS NOT 'open') OVER (
           PARTITION BY r.runbook, r.phase ORDER BY julianday(r.recorded_at) DESC, r.id DESC) AS closed
  FROM pipestate_run r WHERE r.event = 'verify'
), counted AS (
  SELECT r.runbook, r.phase, r.recorded_at, r.second,
         r.is_open AND r.is_past AND r.closed = 0 AS holds,
         row_number() OVER back AS place,
         count(*) FILTER (WHERE r.is_open AND r.is_past AND r.closed = 0) OVER back AS records,
         count(*) FILTER (WHERE r.is_open AND r.is_past AND r.closed = 0) OVER whole AS of_all,
         coalesce(min(r.second) FILTER (WHERE r.is_open AND r.is_past AND r.closed = 0) OVER (
           back ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), unixepoch('now')) AS next_second,
         max(r.recorded_at) OVER whole AS last_record_at,
         max(r.second) OVER whole AS last_second,
         max(r.recorded_at) FILTER (WHERE NOT r.is_open) OVER whole AS last_closed_at,
         max(r.actor) FILTER (WHERE NOT r.is_open AND r.closed = 1) OVER whole AS last_closed_by
  FROM record r
  WINDOW whole AS (PARTITION BY r.runbook, r.phase),
         back AS (PARTITION BY r.runbook, r.phase ORDER BY r.day DESC, r.id DESC)
), held AS (
  SELECT c.*,
         CASE WHEN c.holds THEN max(0, unixepoch('now') - c.second) END AS held_s,
         max(CASE WHEN c.holds THEN max(0, c.next_second - c.second) END) OVER (
           PARTITION BY c.runbook, c.phase ORDER BY c.place) AS gap_s,
         CASE WHEN c.last_second <= unixepoch('now') + 300
              THEN max(0, unixepoch('now') - c.last_second) END AS last_s
  FROM counted c
)
SELECT h.runbook,
       h.phase,
       h.records,
       CASE WHEN h.holds THEN h.recorded_at END AS held_since,
       h.last_record_at,
       (h.held_s * 100 / 86400) / 100.0 AS days_held,
       ((h.last_s * 100 + 3599) / 3600) / 100.0 AS hours_since_last_record,
       ((h.gap_s * 100 + 3599) / 3600) / 100.0 AS longest_gap_hours,
       h.last_closed_at,
       h.last_closed_by
FROM held h
WHERE h.holds OR (h.of_all = 0 AND h.place = 1);
DROP VIEW IF EXISTS pipestate_soak;
CREATE VIEW pipestate_soak AS
SELECT s.runbook,
       s.phase,
       s.records,
       s.held_since,
       s.last_record_at,
       s.days_held,
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
            THEN max(0, unixepoch('now') - unixepoch(a.signed_at)) END AS age_seconds
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
       p.actor
FROM pipestate_backfill_progress p
WHERE p.id = (SELECT max(latest.id) FROM pipestate_backfill_progress latest
              WHERE latest.runbook = p.runbook AND latest.name = p.name);
DROP VIEW IF EXISTS pipestate_rehearsed;
CREATE VIEW pipestate_rehearsed AS
SELECT f.key AS revision,
       r.longest_stall_ms,
       r.noise_ms,
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
