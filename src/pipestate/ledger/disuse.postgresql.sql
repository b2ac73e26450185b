-- Disuse: since when no statement ran that a pending contract breaks. docs/how-to/prove-disuse.md explains it.
-- One row a revision of the newest `compat --record`. A statement that compat has not found harmless counts as a use.
-- After a restart, a statement with the same calls and time as before shows that the server kept its statistics.
-- `why` says why the count begins at `unused_since`, or why `days_unused` is NULL, which no check passes.
CREATE OR REPLACE VIEW pipestate.disuse AS
WITH contract AS (
  SELECT DISTINCT ON (f.revision) f.revision, r.watch
  FROM pipestate.rehearsal r CROSS JOIN LATERAL jsonb_object_keys(r.files) AS f (revision)
  WHERE r.kind = 'compat' AND isfinite(r.rehearsed_at)
    AND (r.database IS NULL OR r.database = (SELECT pipestate.this_database()))
    AND r.files <@ nullif(current_setting('pipestate.files', true), '')::jsonb
  ORDER BY f.revision, r.rehearsed_at DESC, r.id DESC
), seen AS (
  SELECT c.revision, o.id, o.observed_at, o.server, o.started_at, o.stats_reset, o.evictions, o.standbys, o.fault, o.calls,
         (SELECT coalesce(jsonb_object_agg(e.key, e.value - 'query'), '{}') FROM jsonb_each(o.calls) AS e
          WHERE (c.watch -> 'harmless' @> jsonb_build_array(e.value -> 'id')) IS NOT TRUE) AS used
  FROM contract c JOIN pipestate.statement_calls o ON o.contract = c.watch ->> 'digest'
  WHERE isfinite(o.observed_at) AND o.database = (SELECT pipestate.this_database())
), compared AS (
  SELECT s.*, lag(s.id) OVER past AS id_before, lag(s.observed_at) OVER past AS observed_before,
         lag(s.server) OVER past AS server_before, lag(s.stats_reset) OVER past AS reset_before,
         lag(s.evictions) OVER past AS evictions_before, lag(s.fault) OVER past AS fault_before,
         lag(s.used) OVER past AS used_before, lag(s.calls) OVER past AS calls_before,
         lag(s.started_at) OVER past AS started_before
  FROM seen s WINDOW past AS (PARTITION BY s.revision ORDER BY s.id)
), judged AS (
  SELECT c.*,
         CASE WHEN c.fault IS NOT NULL THEN c.fault
              WHEN c.id_before IS NULL THEN 'the first observation of this contract'
              WHEN c.fault_before IS NOT NULL THEN 'before it: ' || c.fault_before
              WHEN c.server IS DISTINCT FROM c.server_before
                THEN concat('another server or version: ', c.server, ', before ', c.server_before)
              WHEN c.stats_reset IS DISTINCT FROM c.reset_before THEN 'the statistics were reset, or lost in a crash'
              WHEN c.evictions IS DISTINCT FROM c.evictions_before
                THEN 'the server evicted statements: raise pg_stat_statements.max'
              WHEN c.started_at IS DISTINCT FROM c.started_before AND NOT EXISTS (
                     SELECT FROM jsonb_each(c.calls) AS e WHERE c.calls_before -> e.key = e.value)
                THEN 'the server restarted, and no statement shows that it kept its statistics'
              WHEN c.observed_at NOT BETWEEN c.observed_before AND c.observed_before + interval '48 hours'
                THEN 'no observation for more than 48 hours'
              WHEN c.used <> c.used_before THEN coalesce(
                (SELECT 'it ran: ' || (e.value ->> 'query') FROM jsonb_each(c.calls) AS e
                 WHERE c.used -> e.key IS DISTINCT FROM c.used_before -> e.key ORDER BY e.key LIMIT 1),
                'the statistics of a statement were removed')
         END AS begins
  FROM compared c
), streak AS (
  SELECT j.*,
         max(j.id) FILTER (WHERE j.begins IS NOT NULL) OVER (PARTITION BY j.revision) AS first_id,
         max(j.id) OVER (PARTITION BY j.revision) AS last_id
  FROM judged j
), summed AS (
  SELECT s.revision, count(*) AS observations, max(s.standbys) AS standbys, min(s.observed_at) AS since,
         max(s.observed_at) AS last_at, max(s.begins) AS begins,
         max(s.fault) FILTER (WHERE s.id = s.last_id) AS fault
  FROM streak s WHERE s.id >= s.first_id GROUP BY s.revision
), doubted AS (
  SELECT c.revision, c.watch, s.observations, s.standbys, s.since, s.last_at, s.begins,
         CASE WHEN c.watch IS NULL THEN 'compat found no table to watch, or a revision failed on the clone'
              WHEN s.last_at IS NULL THEN 'no observation of this contract yet: pipestate observe'
              WHEN s.fault IS NOT NULL THEN s.fault
              WHEN s.last_at < statement_timestamp() - interval '48 hours' THEN 'no observation for more than 48 hours'
              WHEN s.last_at > statement_timestamp() + interval '5 minutes' THEN 'an observation lies in the future'
         END AS doubt
  FROM contract c LEFT JOIN summed s ON s.revision = c.revision
)
SELECT d.revision,
       CASE WHEN d.doubt IS NULL
            THEN round((floor(extract(epoch FROM d.last_at - d.since))::bigint * 100 / 86400) / 100.0, 2)
       END AS days_unused,
       CASE WHEN d.doubt IS NULL THEN d.since END AS unused_since,
       coalesce(d.doubt, d.begins) AS why,
       coalesce(d.observations, 0) AS observations,
       d.last_at AS last_observed_at,
       d.standbys,
       coalesce(jsonb_array_length(d.watch -> 'broken'), 0) AS statements
FROM doubted d;

-- The sessions of clients in this database with the release that each states: application_name `shop/2026.11.3`.
-- `release` is NULL where a session states none; `release < '{2026,11,3}' IS NOT FALSE` finds those, too.
CREATE OR REPLACE VIEW pipestate.running_release AS
SELECT a.pid,
       a.usename::text AS role,
       a.application_name,
       (regexp_match(a.application_name, '^([^/]+)/'))[1] AS application,
       string_to_array((regexp_match(a.application_name, '^[^/]+/v?([0-9]{1,18}([.][0-9]{1,18})*)'))[1], '.')::bigint[] AS release,
       a.backend_start AS connected_at
FROM pg_catalog.pg_stat_activity a
WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid();
