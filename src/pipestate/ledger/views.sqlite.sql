-- The ledger's views on SQLite, column by column those of views.postgresql.sql.

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

-- SQLite has no settings in which a session could say what the files are: nothing counts as rehearsed.
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
