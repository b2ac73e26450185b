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
FROM pipestate_observation o
WHERE o.id = (SELECT t.id FROM pipestate_observation t
              WHERE t.name = o.name AND unixepoch(t.observed_at) IS NOT NULL
              ORDER BY julianday(t.observed_at) DESC, t.id DESC LIMIT 1);

CREATE VIEW pipestate_soak AS
WITH record AS (
  SELECT r.id, r.runbook, r.phase, r.gate, r.actor, r.recorded_at,
         julianday(r.recorded_at) AS day, unixepoch(r.recorded_at) AS second
  FROM pipestate_run r WHERE r.event = 'verify'
), closed AS (
  SELECT c.* FROM (
    SELECT r.*, row_number() OVER (PARTITION BY r.runbook, r.phase ORDER BY r.day DESC, r.id DESC) AS place
    FROM record r WHERE r.gate IS NOT 'open'
  ) AS c WHERE c.place = 1
), held AS (
  SELECT r.runbook, r.phase, r.recorded_at, r.day, r.second,
         lead(r.second, 1, unixepoch('now')) OVER (
           PARTITION BY r.runbook, r.phase ORDER BY r.day, r.id) AS next_second
  FROM record r LEFT JOIN closed c ON c.runbook = r.runbook AND c.phase = r.phase
  WHERE r.gate = 'open' AND r.second <= unixepoch('now') + 300
    AND (c.id IS NULL OR (r.day, r.id) > (c.day, c.id))
), streak AS (
  SELECT h.runbook, h.phase, count(*) AS records, min(h.recorded_at) AS held_since,
         max(0, unixepoch('now') - min(h.second)) AS held_s,
         max(0, max(h.next_second - h.second)) AS gap_s
  FROM held h GROUP BY h.runbook, h.phase
), known AS (
  SELECT r.runbook, r.phase, max(r.recorded_at) AS last_record_at,
         CASE WHEN max(r.second) <= unixepoch('now') + 300
              THEN max(0, unixepoch('now') - max(r.second)) END AS last_s
  FROM record r GROUP BY r.runbook, r.phase
)
SELECT k.runbook,
       k.phase,
       coalesce(s.records, 0) AS records,
       s.held_since,
       k.last_record_at,
       (s.held_s * 100 / 86400) / 100.0 AS days_held,
       ((k.last_s * 100 + 3599) / 3600) / 100.0 AS hours_since_last_record,
       ((s.gap_s * 100 + 3599) / 3600) / 100.0 AS longest_gap_hours,
       c.recorded_at AS last_closed_at,
       c.actor AS last_closed_by
FROM known k
LEFT JOIN streak s ON s.runbook = k.runbook AND s.phase = k.phase
LEFT JOIN closed c ON c.runbook = k.runbook AND c.phase = k.phase;

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

-- SQLite has no settings in which a look could say what the files are: nothing counts as rehearsed.
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
