-- The ledger's views on PostgreSQL. docs/reference/ledger.md explains every column.
--
-- An age is in whole seconds. It is NULL, which no check passes, where the time lies more than five
-- minutes ahead of the server's clock; a time that is infinite counts for nothing.
-- New columns go to the end of a view: CREATE OR REPLACE VIEW keeps the rights that were granted.

-- Bounds rather than isfinite(): for these the planner reads the index in its order, and need not sort the history.
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
WHERE o.observed_at > '-infinity' AND o.observed_at < 'infinity';

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

-- Records are the runs of `pipestate verify --record`; what gates found inside migrations is none. The streak of
-- a phase is its open records after the last closed one. Each of them is a row, as if the streak began there,
-- so that a check can leave a long gap behind. A phase without a streak has one row, and no beginning in it.
-- Records of another database, and those before the last change of the phase's checks, do not count.
CREATE OR REPLACE VIEW pipestate.soak_since AS
WITH written AS (
  SELECT r.runbook, r.phase, r.id, r.actor, r.recorded_at, r.gate, r.phase_sha256 <> first_value(r.phase_sha256) OVER (
           PARTITION BY r.runbook, r.phase ORDER BY r.recorded_at DESC, r.id DESC) AS is_other_text
  FROM pipestate.run r
  WHERE r.event = 'verify' AND (r.database IS NULL OR r.database = (SELECT pipestate.this_database()))
), record AS (
  SELECT r.runbook, r.phase, r.id, r.actor, r.recorded_at,
         r.gate IS NOT DISTINCT FROM 'open' AS is_open,
         isfinite(r.recorded_at) AND r.recorded_at <= statement_timestamp() + interval '5 minutes'
           AND count(*) FILTER (WHERE r.is_other_text) OVER back = 0 AS counts,
         count(*) FILTER (WHERE r.gate IS DISTINCT FROM 'open') OVER back AS closed
  FROM written r
  WINDOW back AS (PARTITION BY r.runbook, r.phase ORDER BY r.recorded_at DESC, r.id DESC)
), counted AS (
  SELECT r.runbook, r.phase, r.recorded_at,
         r.is_open AND r.counts AND r.closed = 0 AS in_streak,
         row_number() OVER back AS place,
         count(*) FILTER (WHERE r.is_open AND r.counts AND r.closed = 0) OVER back AS records,
         count(*) FILTER (WHERE r.is_open AND r.counts AND r.closed = 0) OVER whole AS of_all,
         coalesce(min(r.recorded_at) FILTER (WHERE r.is_open AND r.counts AND r.closed = 0) OVER (
           back ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), statement_timestamp()) AS next_at,
         max(r.recorded_at) OVER whole AS last_record_at,
         max(r.recorded_at) FILTER (WHERE NOT r.is_open) OVER whole AS last_closed_at,
         max(r.actor) FILTER (WHERE NOT r.is_open AND r.closed = 1) OVER whole AS last_closed_by
  FROM record r
  WINDOW whole AS (PARTITION BY r.runbook, r.phase),
         back AS (PARTITION BY r.runbook, r.phase ORDER BY r.recorded_at DESC, r.id DESC)
), streak AS (
  SELECT c.*,
         CASE WHEN c.in_streak
              THEN greatest(0, floor(extract(epoch FROM statement_timestamp() - c.recorded_at)))::bigint
         END AS open_s,
         max(CASE WHEN c.in_streak
                  THEN greatest(0, ceil(extract(epoch FROM c.next_at - c.recorded_at)))::bigint
             END) OVER (PARTITION BY c.runbook, c.phase ORDER BY c.place) AS gap_s,
         CASE WHEN isfinite(c.last_record_at)
                   AND c.last_record_at <= statement_timestamp() + interval '5 minutes'
              THEN greatest(0, ceil(extract(epoch FROM statement_timestamp() - c.last_record_at)))::bigint
         END AS last_s
  FROM counted c
)
SELECT s.runbook,
       s.phase,
       s.records,
       CASE WHEN s.in_streak THEN s.recorded_at END AS open_since,
       s.last_record_at,
       round((s.open_s * 100 / 86400) / 100.0, 2) AS days_open,
       round(((s.last_s * 100 + 3599) / 3600) / 100.0, 2) AS hours_since_last_record,
       round(((s.gap_s * 100 + 3599) / 3600) / 100.0, 2) AS longest_gap_hours,
       s.last_closed_at,
       s.last_closed_by
FROM streak s
WHERE s.in_streak OR (s.of_all = 0 AND s.place = 1);

-- The whole streak: one row a phase.
CREATE OR REPLACE VIEW pipestate.soak AS
SELECT DISTINCT ON (s.runbook, s.phase)
       s.runbook,
       s.phase,
       s.records,
       s.open_since,
       s.last_record_at,
       s.days_open,
       s.hours_since_last_record,
       s.longest_gap_hours,
       s.last_closed_at,
       s.last_closed_by
FROM pipestate.soak_since s
ORDER BY s.runbook, s.phase, s.records DESC;

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
       END AS age_seconds,
       a.text_sha256
FROM pipestate.attestation a
WHERE a.database IS NULL OR a.database = (SELECT pipestate.this_database());

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
       p.actor,
       p.paused_at,
       p.paused_by,
       p.batch_rows
FROM pipestate.backfill_progress p
WHERE p.id = (SELECT max(latest.id) FROM pipestate.backfill_progress latest
              WHERE latest.runbook = p.runbook AND latest.name = p.name);

-- The newest rehearsal of each revision, of those whose files are all as they are today. The session says which they
-- are, in the setting `pipestate.files`; where nobody has said it, the view is empty.
CREATE OR REPLACE VIEW pipestate.rehearsed AS
SELECT DISTINCT ON (f.revision)
       f.revision,
       r.longest_wait_ms,
       r.idle_wait_ms,
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
  AND (r.database IS NULL OR r.database = (SELECT pipestate.this_database()))
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
  AND (r.database IS NULL OR r.database = (SELECT pipestate.this_database()))
  AND r.files <@ nullif(current_setting('pipestate.files', true), '')::jsonb
ORDER BY f.revision, r.rehearsed_at DESC, r.id DESC;
