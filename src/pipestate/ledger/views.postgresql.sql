-- The ledger's views on PostgreSQL. docs/ledger.md explains every column.
--
-- An age is in whole seconds. It is NULL, which no check passes, where the time lies more than five
-- minutes ahead of the server's clock; a time that is infinite counts for nothing.
-- New columns go to the end of a view: CREATE OR REPLACE VIEW keeps the rights that were granted.

CREATE OR REPLACE VIEW pipestate.observed AS
SELECT o.name,
       o.value,
       CASE WHEN o.observed_at <= statement_timestamp() + interval '5 minutes'
            THEN greatest(0, floor(extract(epoch FROM statement_timestamp() - o.observed_at)))::bigint
       END AS age_seconds,
       o.observed_at,
       o.source,
       o.actor,
       string_agg(o.value::text, ', ') OVER (
         PARTITION BY o.name ORDER BY o.observed_at DESC, o.id DESC ROWS BETWEEN CURRENT ROW AND 9 FOLLOWING
       ) AS last_ten,
       ceil(extract(epoch FROM o.observed_at - lag(o.observed_at) OVER (
         PARTITION BY o.name ORDER BY o.observed_at, o.id
       )))::bigint AS gap_seconds
FROM pipestate.observation o
WHERE isfinite(o.observed_at);

CREATE OR REPLACE VIEW pipestate.latest_observation AS
SELECT known.name,
       latest.value,
       CASE WHEN latest.observed_at <= statement_timestamp() + interval '5 minutes'
            THEN greatest(0, floor(extract(epoch FROM statement_timestamp() - latest.observed_at)))::bigint
       END AS age_seconds,
       latest.observed_at,
       latest.source,
       latest.actor,
       (SELECT string_agg(ten.value::text, ', ' ORDER BY ten.observed_at DESC, ten.id DESC)
        FROM (SELECT o.id, o.value, o.observed_at FROM pipestate.observation o
              WHERE o.name = known.name AND isfinite(o.observed_at)
              ORDER BY o.observed_at DESC, o.id DESC LIMIT 10) AS ten) AS last_ten
FROM (SELECT DISTINCT o.name FROM pipestate.observation o) AS known
CROSS JOIN LATERAL (
  SELECT o.value, o.observed_at, o.source, o.actor FROM pipestate.observation o
  WHERE o.name = known.name AND isfinite(o.observed_at)
  ORDER BY o.observed_at DESC, o.id DESC LIMIT 1
) AS latest;

-- A phase has held since the first open record after the last closed one. Records are the runs of
-- `pipestate verify --record`; what gates found inside migrations is none.
CREATE OR REPLACE VIEW pipestate.soak AS
WITH record AS (
  SELECT r.id, r.runbook, r.phase, r.gate, r.actor, r.recorded_at
  FROM pipestate.run r WHERE r.event = 'verify'
), closed AS (
  SELECT DISTINCT ON (r.runbook, r.phase) r.runbook, r.phase, r.id, r.actor, r.recorded_at
  FROM record r WHERE r.gate IS DISTINCT FROM 'open'
  ORDER BY r.runbook, r.phase, r.recorded_at DESC, r.id DESC
), held AS (
  SELECT r.runbook, r.phase, r.recorded_at,
         lead(r.recorded_at, 1, statement_timestamp()) OVER (
           PARTITION BY r.runbook, r.phase ORDER BY r.recorded_at, r.id) AS next_at
  FROM record r LEFT JOIN closed c ON c.runbook = r.runbook AND c.phase = r.phase
  WHERE r.gate = 'open' AND isfinite(r.recorded_at)
    AND r.recorded_at <= statement_timestamp() + interval '5 minutes'
    AND (c.id IS NULL OR (r.recorded_at, r.id) > (c.recorded_at, c.id))
), streak AS (
  SELECT h.runbook, h.phase, count(*) AS records, min(h.recorded_at) AS held_since,
         greatest(0, floor(extract(epoch FROM statement_timestamp() - min(h.recorded_at))))::bigint AS held_s,
         greatest(0, ceil(max(extract(epoch FROM h.next_at - h.recorded_at))))::bigint AS gap_s
  FROM held h GROUP BY h.runbook, h.phase
), known AS (
  SELECT r.runbook, r.phase, max(r.recorded_at) AS last_record_at,
         CASE WHEN isfinite(max(r.recorded_at))
                   AND max(r.recorded_at) <= statement_timestamp() + interval '5 minutes'
              THEN greatest(0, ceil(extract(epoch FROM statement_timestamp() - max(r.recorded_at))))::bigint
         END AS last_s
  FROM record r GROUP BY r.runbook, r.phase
)
SELECT k.runbook,
       k.phase,
       coalesce(s.records, 0) AS records,
       s.held_since,
       k.last_record_at,
       round((s.held_s * 100 / 86400) / 100.0, 2) AS days_held,
       round(((k.last_s * 100 + 3599) / 3600) / 100.0, 2) AS hours_since_last_record,
       round(((s.gap_s * 100 + 3599) / 3600) / 100.0, 2) AS longest_gap_hours,
       c.recorded_at AS last_closed_at,
       c.actor AS last_closed_by
FROM known k
LEFT JOIN streak s ON s.runbook = k.runbook AND s.phase = k.phase
LEFT JOIN closed c ON c.runbook = k.runbook AND c.phase = k.phase;

CREATE OR REPLACE VIEW pipestate.sign_off AS
SELECT a.runbook,
       a.phase,
       a.name,
       a.person,
       a.note,
       a.revision,
       a.signed_at,
       CASE WHEN isfinite(a.signed_at) AND a.signed_at <= statement_timestamp() + interval '5 minutes'
            THEN greatest(0, floor(extract(epoch FROM statement_timestamp() - a.signed_at)))::bigint
       END AS age_seconds
FROM pipestate.attestation a;

-- The newest run of each backfill. The number of rows is an estimate: it is done when `finished_at` is set.
CREATE OR REPLACE VIEW pipestate.backfill AS
SELECT p.runbook,
       p.name AS id,
       p.table_name,
       p.first_key,
       p.last_key,
       p.rows_updated,
       p.rows_left,
       p.batches,
       CASE WHEN p.finished_at IS NOT NULL THEN 100
            WHEN p.rows_expected > 0 THEN least(99, floor(100.0 * p.rows_seen / p.rows_expected))::integer
            ELSE 0 END AS percent,
       p.started_at,
       p.updated_at,
       p.finished_at,
       p.actor
FROM pipestate.backfill_progress p
WHERE p.id = (SELECT max(latest.id) FROM pipestate.backfill_progress latest
              WHERE latest.runbook = p.runbook AND latest.name = p.name);

-- The newest rehearsal of each revision, of those whose files are all as they are today. The look says which they
-- are, in the setting `pipestate.files`; where nobody has said it, the view is empty.
CREATE OR REPLACE VIEW pipestate.rehearsed AS
SELECT DISTINCT ON (f.revision)
       f.revision,
       r.longest_stall_ms,
       r.noise_ms,
       r.bounded,
       r.ok,
       r.rows,
       CASE WHEN r.rehearsed_at <= statement_timestamp() + interval '5 minutes'
            THEN greatest(0, floor(extract(epoch FROM statement_timestamp() - r.rehearsed_at)))::bigint
       END AS age_seconds,
       r.rehearsed_at,
       r.actor,
       r.clone,
       r.tables,
       r.scale
FROM pipestate.rehearsal r CROSS JOIN LATERAL jsonb_object_keys(r.files) AS f (revision)
WHERE r.kind = 'rehearse' AND isfinite(r.rehearsed_at)
  AND r.files <@ nullif(current_setting('pipestate.files', true), '')::jsonb
ORDER BY f.revision, r.rehearsed_at DESC, r.id DESC;

-- The same of `pipestate compat`: how many of today's statements break.
CREATE OR REPLACE VIEW pipestate.compat AS
SELECT DISTINCT ON (f.revision)
       f.revision,
       r.statements,
       r.broken,
       r.changed,
       r.unprepared,
       r.ok,
       CASE WHEN r.rehearsed_at <= statement_timestamp() + interval '5 minutes'
            THEN greatest(0, floor(extract(epoch FROM statement_timestamp() - r.rehearsed_at)))::bigint
       END AS age_seconds,
       r.rehearsed_at,
       r.actor,
       r.clone
FROM pipestate.rehearsal r CROSS JOIN LATERAL jsonb_object_keys(r.files) AS f (revision)
WHERE r.kind = 'compat' AND isfinite(r.rehearsed_at)
  AND r.files <@ nullif(current_setting('pipestate.files', true), '')::jsonb
ORDER BY f.revision, r.rehearsed_at DESC, r.id DESC;
