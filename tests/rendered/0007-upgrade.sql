-- Written by `alembic --sql`. Review it, then run it with psql: psql -f this-file DATABASE
\set ON_ERROR_STOP on
SET TimeZone = 'UTC';
SET standard_conforming_strings = 'on';
SET statement_timeout = '0';
SET idle_in_transaction_session_timeout = '0';
SET lock_timeout = '60s';
SET default_transaction_read_only = 'off';
SET row_security = 'off';
SET max_parallel_workers_per_gather = '0';
SET max_parallel_maintenance_workers = '0';

DO $pipestate$
BEGIN
  FOR attempt IN 1..600 LOOP
    IF pg_try_advisory_lock(1885958245, 1937006964) THEN RETURN; END IF;
    COMMIT;
    PERFORM pg_sleep(1);
  END LOOP;
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is still running on this database: run this script again later');
END $pipestate$;

BEGIN;

-- Running upgrade 0006 -> 0007

-- The database is at revision 0006, and no other migration is running
DO $pipestate$
BEGIN
IF (SELECT coalesce(string_agg(version_num, ' '), '') FROM pipestate_alembic_version) <> '0006' THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('this part of the script starts at revision 0006, but the database is at %s: nothing was changed', (SELECT coalesce(string_agg(version_num, ' '), 'base') FROM pipestate_alembic_version));
END IF;
IF NOT pg_try_advisory_lock(1885958245, 1937006964) THEN
  RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('another migration is running on this database: wait for it to end, then run this script again');
END IF;
END $pipestate$;

-- no name of this revision exists in another spelling alone
DO $pipestate$
DECLARE
  path CONSTANT text := pg_catalog.current_setting('search_path');
  schemas CONSTANT name[] := pg_catalog.current_schemas(false);
  named text;
  other text;
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  FOR named, other IN
    SELECT concat('sites.', w.name), a.attname::text FROM unnest(ARRAY['status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted']::text[]) AS w (name)
      JOIN pg_attribute a ON a.attrelid IN (SELECT c.oid FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ANY (schemas) AND c.relname = 'sites') AND NOT a.attisdropped
        AND lower(a.attname) = lower(btrim(w.name, ' "'))
      WHERE NOT EXISTS (SELECT FROM pg_attribute e WHERE e.attrelid = a.attrelid AND NOT e.attisdropped
        AND e.attname = w.name)
  LOOP
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s does not exist, and %s does: write the name in the revision as it is spelt there', named, other);
  END LOOP;
  PERFORM set_config('search_path', path, true);
END $pipestate$;

\set ON_ERROR_STOP on
\set ON_ERROR_ROLLBACK off

-- The ledger has functions of this version, and belongs to a role that this one trusts
DO $pipestate$
DECLARE
  path CONSTANT text := pg_catalog.current_setting('search_path');
  other_owner name;
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  SELECT pg_get_userbyid(o.owner) INTO other_owner FROM (SELECT nspowner AS owner FROM pg_namespace WHERE nspname = 'pipestate') AS o
   WHERE NOT (o.owner = to_regrole(quote_ident(current_user))::oid
      OR EXISTS (SELECT FROM pg_roles r WHERE r.oid = o.owner AND r.rolsuper)
      OR EXISTS (SELECT FROM pg_database d WHERE d.datname = current_database() AND d.datdba = o.owner)
      OR (NOT current_setting('is_superuser') = 'on' AND (pg_has_role(o.owner, 'USAGE') OR pg_has_role(o.owner,
        CASE WHEN current_setting('server_version_num')::integer >= 160000 THEN 'SET' ELSE 'MEMBER' END))));
  IF other_owner IS NOT NULL THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the schema pipestate belongs to %s, of which %s is no member: look at what it holds, then hand it over with ALTER ... OWNER TO, or connect as its owner', other_owner, current_user);
  END IF;
  CALL pipestate.require_version('1.ec6251729d4f');
  PERFORM set_config('search_path', path, true);
EXCEPTION
  WHEN undefined_function OR invalid_schema_name THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = 'this database has no ledger: run `pipestate ledger install`, or a revision that calls install_ledger()';
  WHEN insufficient_privilege THEN
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = format('the role %1$s may not use the ledger, which gates and scripts need. As its owner: CALL pipestate.grant_migrating(%1$L)', current_user);
END $pipestate$;

CALL pipestate.require_session('0007', pg_catalog.current_schemas(false), 'sites', NULL);

-- what this revision drops can be dropped, and restored
DO $pipestate$
DECLARE
  fault text;
BEGIN
  fault := coalesce(fault, pipestate.columns_fault(to_regclass('sites'), ARRAY['status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted']::text[], ARRAY[]::text[], True));
  PERFORM pipestate.renamed_with(to_regclass('sites'), ARRAY['status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted']::text[], ARRAY['status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted']::text[], pipestate.removed_with(to_regclass('sites'), ARRAY['status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted']::text[], ARRAY[]::text[], ARRAY['status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted']::text[]), 0);
  IF fault IS NOT NULL THEN
    PERFORM pipestate.refuse(fault || '; this contract changed nothing');
  END IF;
END $pipestate$;

-- no name of this revision exists in another spelling alone
DO $pipestate$
DECLARE
  path CONSTANT text := pg_catalog.current_setting('search_path');
  schemas CONSTANT name[] := pg_catalog.current_schemas(false);
  named text;
  other text;
BEGIN
  PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
  FOR named, other IN
    SELECT 'sites', c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE c.relkind IN ('r', 'p') AND n.nspname = ANY (schemas) AND lower(c.relname) = lower('sites')
        AND NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = ANY (schemas) AND c.relname = 'sites')
  LOOP
    RAISE EXCEPTION USING ERRCODE = 'PSTAT', MESSAGE = pg_catalog.format('%s does not exist, and %s does: write the name in the revision as it is spelt there', named, other);
  END LOOP;
  PERFORM set_config('search_path', path, true);
END $pipestate$;

-- The gate sites-consolidation/readiness of revision 0007: runbooks/sites-consolidation.md:766
-- Each check below is evaluated now, read-only. Where one does not hold, the script ends at judge_gate,
-- and nothing of this revision is done.

SET LOCAL standard_conforming_strings = on;

SET LOCAL client_encoding = 'UTF8';

CALL pipestate.begin_gate(
  revision => '0007',
  runbook => 'sites-consolidation',
  phase => 'readiness',
  tables => ARRAY['sites']::text[],
  path => pg_catalog.current_schemas(false),
  timeout => '30s',
  may_be_gone => true,
  sha256 => 'b3904be198aeefc6e28c34bce0b7d5d7d0180c02bdf219243e0969e5177beae6',
  files => '{"0001": "5182d9e060cf59c7c169932831b75a44", "0002": "0c9bd0270d6ad8eb301772358a151aa2", "0003": "cdb30b29da0e83bdcf2ae73f11a68ecf", "0004": "1ea7f6b035494770202dd69997040247", "0005": "e199289031ee124cb5916ddc93f93783", "0006": "c17ddf09e2e7fbb0f97b62adc47b4e60", "0007": "0d79961ff770c221f121eb6679e75bc5"}',
  version_table => 'pipestate_alembic_version',
  starts_at => ARRAY['0006']::text[]);

CALL pipestate.evaluate_check('0007', 1, 'backup-taken', 'people >= 1', 'runbooks/sites-consolidation.md:789', '', frame => $verdict_1$
SELECT CASE WHEN people >= 1 THEN 'passed' ELSE 'failed' END AS outcome,
       CASE WHEN people >= 1 THEN 'signed off within 24h'
            ELSE 'not signed off within 24h: pipestate attest sites-consolidation/readiness/backup-taken --by YOU'
       END AS message,
       1 AS rows, json_build_object('people', people)::text AS observed
FROM (SELECT count(DISTINCT lower(trim(person))) AS people FROM pipestate.sign_off
  WHERE runbook = 'sites-consolidation' AND phase = 'readiness' AND name = 'backup-taken'
  AND coalesce(text_sha256, '347c8be4d7dc6ae8409a105c93b386ccbe26285c449edccd8cf52e8c66cb3837')
    = '347c8be4d7dc6ae8409a105c93b386ccbe26285c449edccd8cf52e8c66cb3837'
  AND age_seconds < 86400) AS signed
$verdict_1$, is_ours => true);

CALL pipestate.evaluate_check('0007', 2, 'old-columns-unread', 'people >= 1', 'runbooks/sites-consolidation.md:791', '', frame => $verdict_2$
SELECT CASE WHEN people >= 1 THEN 'passed' ELSE 'failed' END AS outcome,
       CASE WHEN people >= 1 THEN 'signed off within 14d'
            ELSE 'not signed off within 14d: pipestate attest sites-consolidation/readiness/old-columns-unread --by YOU'
       END AS message,
       1 AS rows, json_build_object('people', people)::text AS observed
FROM (SELECT count(DISTINCT lower(trim(person))) AS people FROM pipestate.sign_off
  WHERE runbook = 'sites-consolidation' AND phase = 'readiness' AND name = 'old-columns-unread'
  AND coalesce(text_sha256, '4f12b75dfa554111ba580461fab383a0ebb985fb012d01361d7d0bba152442fe')
    = '4f12b75dfa554111ba580461fab383a0ebb985fb012d01361d7d0bba152442fe'
  AND age_seconds < 1209600) AS signed
$verdict_2$, is_ours => true);

CALL pipestate.evaluate_check('0007', 3, 'sites-without-stage', 'rows = 0', 'runbooks/sites-consolidation.md:886', $check_3$
-- The first row stands in for the column of an application that never had it.
SELECT 'its only state is status' AS fault, lost.*
FROM (SELECT NULL::text AS status) AS otherwise
CROSS JOIN LATERAL (
  SELECT subdomain, status FROM sites WHERE current_stage IS NULL AND status IS NOT NULL
) AS lost
ORDER BY lost.subdomain
$check_3$, frame => $verdict_3$
SELECT CASE WHEN the_rows.rows = 0 THEN 'passed' ELSE 'failed' END AS outcome,
  'rows is ' || CAST(the_rows.rows AS text) || ', required = 0' AS message, the_rows.rows, NULL AS observed
FROM (SELECT count(*) AS rows FROM (
{query}
) AS the_query CROSS JOIN (SELECT 1 AS rows) AS one WHERE rows = 1) AS the_rows
$verdict_3$, shows_rows => true);

CALL pipestate.evaluate_check('0007', 4, 'reconciliation-runs', 'runs = 10 and most_found < 5 and minutes_ago <= 60', 'runbooks/sites-consolidation.md:907', $check_4$
SELECT count(*) AS runs, max(found) AS most_found,
       ceil(extract(epoch FROM now() - max(finished_at))::numeric / 6) / 10 AS minutes_ago
FROM (SELECT max(r.found) AS found, max(r.finished_at) AS finished_at
      FROM pipeline_reconciliation r
      WHERE r.triggered_by = 'cron' AND r.finished_at IS NOT NULL
      GROUP BY floor(extract(epoch FROM r.finished_at)::numeric / 900)
      ORDER BY finished_at DESC LIMIT 10) AS latest
$check_4$, frame => $verdict_4$
WITH the_result AS MATERIALIZED (SELECT the_query.* FROM (
{query}
) AS the_query LIMIT 2),
the_rows AS (SELECT count(*) AS rows FROM the_result), the_values AS (
  SELECT 1 AS place, 'runs' AS name, '= 10' AS required, 'number' AS wanted, the_result.runs::text AS value,
    pg_catalog.to_json(the_result.runs) AS json, pg_catalog.pg_typeof(the_result.runs)::oid AS type
    FROM the_rows LEFT JOIN the_result ON the_rows.rows = 1
  UNION ALL SELECT 2 AS place, 'most_found' AS name, '< 5' AS required, 'number' AS wanted, the_result.most_found::text AS value,
    pg_catalog.to_json(the_result.most_found) AS json, pg_catalog.pg_typeof(the_result.most_found)::oid AS type
    FROM the_rows LEFT JOIN the_result ON the_rows.rows = 1
  UNION ALL SELECT 3 AS place, 'minutes_ago' AS name, '<= 60' AS required, 'number' AS wanted, the_result.minutes_ago::text AS value,
    pg_catalog.to_json(the_result.minutes_ago) AS json, pg_catalog.pg_typeof(the_result.minutes_ago)::oid AS type
    FROM the_rows LEFT JOIN the_result ON the_rows.rows = 1
), the_kinds AS (SELECT the_values.*, CASE json_typeof(json)
  WHEN 'string' THEN (SELECT CASE WHEN typcategory IN ('S', 'E', 'Z') THEN 'text' WHEN typcategory = 'N' THEN 'number'
    ELSE typname::text END FROM pg_type WHERE oid = type) ELSE json_typeof(json) END AS kind FROM the_values
), the_outcomes AS (SELECT the_kinds.*, CASE WHEN value IS NULL OR kind = 'number' AND value IN ('NaN', 'Infinity', '-Infinity') THEN 'failed'
  WHEN kind <> wanted AND NOT (wanted = 'boolean' AND kind = 'number' AND CAST(value AS text) IN ('0', '1'))
    THEN 'errored'
  WHEN CASE place
    WHEN 1 THEN value::numeric = 10.0
    WHEN 2 THEN value::numeric < 5.0
    WHEN 3 THEN value::numeric <= 60.0 END THEN 'passed' ELSE 'failed' END AS outcome FROM the_kinds
), the_verdict AS (SELECT outcome, string_agg(
  name || ' is ' || CASE kind WHEN 'number' THEN regexp_replace(value, '([.][0-9]+?)0+$', '\1') WHEN 'boolean' THEN value
    ELSE coalesce('''' || replace(left(value, 80), '''', '''''') || '''', 'NULL') END || ', required ' || required ||
  CASE outcome WHEN 'errored' THEN ': a value of type ' || kind || ' cannot be compared with a ' || wanted ELSE '' END, chr(59) || ' ' ORDER BY place)
  AS message FROM the_outcomes GROUP BY outcome ORDER BY outcome LIMIT 1)
SELECT CASE WHEN the_rows.rows = 1 THEN the_verdict.outcome WHEN the_rows.rows = 0 THEN 'failed' ELSE 'errored' END AS outcome,
  CASE WHEN the_rows.rows = 1 THEN the_verdict.message
    WHEN the_rows.rows = 0 THEN 'no row, required runs = 10 and most_found < 5 and minutes_ago <= 60'
    ELSE 'the query returned more than one row, and a column is compared in one: aggregate in the query, or require `rows`'
  END AS message, the_rows.rows, pg_catalog.to_json(the_result)::text AS observed
FROM the_verdict CROSS JOIN the_rows LEFT JOIN the_result ON the_rows.rows = 1
$verdict_4$);

CALL pipestate.evaluate_check('0007', 5, 'manual-interventions', 'interventions = 0 and days_on_record >= 7', 'runbooks/sites-consolidation.md:939', $check_5$
SELECT count(*) FILTER (WHERE triggered_by = 'manual'
                        AND (recovered > 0 OR finished_at IS NULL)
                        AND started_at > now() - interval '7 days') AS interventions,
       trunc(extract(epoch FROM now() - min(started_at))::numeric / 86400, 2) AS days_on_record
FROM pipeline_reconciliation
$check_5$, frame => $verdict_5$
WITH the_result AS MATERIALIZED (SELECT the_query.* FROM (
{query}
) AS the_query LIMIT 2),
the_rows AS (SELECT count(*) AS rows FROM the_result), the_values AS (
  SELECT 1 AS place, 'interventions' AS name, '= 0' AS required, 'number' AS wanted, the_result.interventions::text AS value,
    pg_catalog.to_json(the_result.interventions) AS json, pg_catalog.pg_typeof(the_result.interventions)::oid AS type
    FROM the_rows LEFT JOIN the_result ON the_rows.rows = 1
  UNION ALL SELECT 2 AS place, 'days_on_record' AS name, '>= 7' AS required, 'number' AS wanted, the_result.days_on_record::text AS value,
    pg_catalog.to_json(the_result.days_on_record) AS json, pg_catalog.pg_typeof(the_result.days_on_record)::oid AS type
    FROM the_rows LEFT JOIN the_result ON the_rows.rows = 1
), the_kinds AS (SELECT the_values.*, CASE json_typeof(json)
  WHEN 'string' THEN (SELECT CASE WHEN typcategory IN ('S', 'E', 'Z') THEN 'text' WHEN typcategory = 'N' THEN 'number'
    ELSE typname::text END FROM pg_type WHERE oid = type) ELSE json_typeof(json) END AS kind FROM the_values
), the_outcomes AS (SELECT the_kinds.*, CASE WHEN value IS NULL OR kind = 'number' AND value IN ('NaN', 'Infinity', '-Infinity') THEN 'failed'
  WHEN kind <> wanted AND NOT (wanted = 'boolean' AND kind = 'number' AND CAST(value AS text) IN ('0', '1'))
    THEN 'errored'
  WHEN CASE place
    WHEN 1 THEN value::numeric = 0.0
    WHEN 2 THEN value::numeric >= 7.0 END THEN 'passed' ELSE 'failed' END AS outcome FROM the_kinds
), the_verdict AS (SELECT outcome, string_agg(
  name || ' is ' || CASE kind WHEN 'number' THEN regexp_replace(value, '([.][0-9]+?)0+$', '\1') WHEN 'boolean' THEN value
    ELSE coalesce('''' || replace(left(value, 80), '''', '''''') || '''', 'NULL') END || ', required ' || required ||
  CASE outcome WHEN 'errored' THEN ': a value of type ' || kind || ' cannot be compared with a ' || wanted ELSE '' END, chr(59) || ' ' ORDER BY place)
  AS message FROM the_outcomes GROUP BY outcome ORDER BY outcome LIMIT 1)
SELECT CASE WHEN the_rows.rows = 1 THEN the_verdict.outcome WHEN the_rows.rows = 0 THEN 'failed' ELSE 'errored' END AS outcome,
  CASE WHEN the_rows.rows = 1 THEN the_verdict.message
    WHEN the_rows.rows = 0 THEN 'no row, required interventions = 0 and days_on_record >= 7'
    ELSE 'the query returned more than one row, and a column is compared in one: aggregate in the query, or require `rows`'
  END AS message, the_rows.rows, pg_catalog.to_json(the_result)::text AS observed
FROM the_verdict CROSS JOIN the_rows LEFT JOIN the_result ON the_rows.rows = 1
$verdict_5$);

CALL pipestate.evaluate_check('0007', 6, 'recent-legacy-column-writes', 'rows = 0', 'runbooks/sites-consolidation.md:981', $check_6$
-- The first row stands in for a column that this application never had.
SELECT 'written within 36 hours' AS fault, late.*
FROM (SELECT NULL::text AS last_updated, NULL::text AS last_deployed, NULL::text AS last_extracted,
             to_char(now() AT TIME ZONE 'UTC' - interval '36 hours', 'YYYY-MM-DD"T"HH24:MI:SS')
               COLLATE "C" AS since) AS otherwise
CROSS JOIN LATERAL (
  SELECT subdomain, last_updated, last_deployed, last_extracted
  FROM sites
  WHERE substr(greatest(
          replace(last_updated::text COLLATE "C", ' ', 'T'),
          replace(last_deployed::text COLLATE "C", ' ', 'T'),
          replace(last_extracted::text COLLATE "C", ' ', 'T')), 1, 40) > since
    AND ((last_updated::text COLLATE "C" LIKE '2___-__-__%'
          AND replace(last_updated::text COLLATE "C", ' ', 'T') > since)
      OR (last_deployed::text COLLATE "C" LIKE '2___-__-__%'
          AND replace(last_deployed::text COLLATE "C", ' ', 'T') > since)
      OR (last_extracted::text COLLATE "C" LIKE '2___-__-__%'
          AND replace(last_extracted::text COLLATE "C", ' ', 'T') > since))
) AS late
ORDER BY late.subdomain
$check_6$, shows_rows => true, again => true);

CALL pipestate.evaluate_check('0007', 7, 'no-dependents', 'rows = 0', 'runbooks/sites-consolidation.md:1014', $check_7$
WITH dropped (what, relation, number, name) AS (
  SELECT 'site_progress', to_regclass('site_progress')::oid, 0, 'site_progress'
  UNION ALL
  SELECT 'sites.' || attname::text, attrelid, attnum::integer, attname::text FROM pg_attribute
  WHERE attrelid = to_regclass('sites') AND NOT attisdropped AND attname IN (
    'status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted')
), function AS MATERIALIZED (
  SELECT p.oid, lower(p.prosrc) AS body,
         EXISTS (SELECT 1 FROM pg_trigger t WHERE t.tgfoid = p.oid
                 AND t.tgrelid = to_regclass('sites')) AS fires_on_sites
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
  WHERE p.oid >= 16384 AND n.nspname !~ '^(pg_|pipestate|information_schema$)' -- not the server's
)
SELECT 'depends on it' AS fault, g.what, pg_describe_object(d.classid, d.objid, 0) AS dependent
FROM dropped g
JOIN pg_depend d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = g.relation
  AND (g.number = 0 OR d.refobjsubid = g.number)
JOIN pg_class catalogue ON catalogue.oid = d.classid
LEFT JOIN pg_rewrite r ON catalogue.relname = 'pg_rewrite' AND r.oid = d.objid
LEFT JOIN pg_trigger t ON catalogue.relname = 'pg_trigger' AND t.oid = d.objid
WHERE r.ev_class <> g.relation
   OR catalogue.relname IN ('pg_proc', 'pg_publication_rel')
   OR (g.number > 0 AND (catalogue.relname = 'pg_policy'
                         OR (NOT t.tgisinternal AND t.tgname NOT LIKE 'pipestate\_keep\_%')))
UNION
SELECT 'points at it', g.what, pg_describe_object('pg_constraint'::regclass, c.oid, 0)
FROM pg_constraint c JOIN dropped g ON c.confrelid = g.relation
WHERE c.contype = 'f' AND c.conrelid <> c.confrelid AND (g.number = 0 OR g.number = ANY (c.confkey))
UNION
SELECT 'names it', g.what, pg_describe_object('pg_proc'::regclass, f.oid, 0)
FROM function f JOIN dropped g ON g.relation IS NOT NULL AND f.body ~ ('\m' || g.name || '\M')
WHERE g.number = 0
   OR f.body ~ ('\msites\.' || g.name || '\M')
   OR (f.fires_on_sites AND f.body ~ ('\m(new|old)\.' || g.name || '\M'))
   OR (f.body ~ '\msites\M' AND NOT EXISTS (
         SELECT 1 FROM pg_attribute a
         JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
         JOIN pg_namespace n ON n.oid = c.relnamespace
         WHERE a.attname = g.name AND NOT a.attisdropped AND c.oid <> g.relation
           AND n.nspname !~ '^(pg_|pipestate|information_schema$)'
           AND strpos(f.body, lower(c.relname)) > 0))
ORDER BY 2, 3
$check_7$, shows_rows => true);

CALL pipestate.evaluate_check('0007', 8, 'stuck-sites', 'stuck_pct < 1.0', 'runbooks/sites-consolidation.md:1131', $check_8$
SELECT count(*) FILTER (WHERE stuck) AS stuck, count(*) AS total,
       coalesce(trunc(100.0 * count(*) FILTER (WHERE stuck)
                      / nullif(count(*), 0), 2), 0.0) AS stuck_pct
FROM (SELECT updated_at IS NULL OR updated_at < now() - interval '2 hours' AS stuck
      FROM sites
      WHERE current_stage::text < 'completed' OR current_stage::text > 'completed') AS in_flight
$check_8$, frame => $verdict_8$
WITH the_result AS MATERIALIZED (SELECT the_query.* FROM (
{query}
) AS the_query LIMIT 2),
the_rows AS (SELECT count(*) AS rows FROM the_result), the_values AS (
  SELECT 1 AS place, 'stuck_pct' AS name, '< 1.0' AS required, 'number' AS wanted, the_result.stuck_pct::text AS value,
    pg_catalog.to_json(the_result.stuck_pct) AS json, pg_catalog.pg_typeof(the_result.stuck_pct)::oid AS type
    FROM the_rows LEFT JOIN the_result ON the_rows.rows = 1
), the_kinds AS (SELECT the_values.*, CASE json_typeof(json)
  WHEN 'string' THEN (SELECT CASE WHEN typcategory IN ('S', 'E', 'Z') THEN 'text' WHEN typcategory = 'N' THEN 'number'
    ELSE typname::text END FROM pg_type WHERE oid = type) ELSE json_typeof(json) END AS kind FROM the_values
), the_outcomes AS (SELECT the_kinds.*, CASE WHEN value IS NULL OR kind = 'number' AND value IN ('NaN', 'Infinity', '-Infinity') THEN 'failed'
  WHEN kind <> wanted AND NOT (wanted = 'boolean' AND kind = 'number' AND CAST(value AS text) IN ('0', '1'))
    THEN 'errored'
  WHEN CASE place
    WHEN 1 THEN value::numeric < 1.0 END THEN 'passed' ELSE 'failed' END AS outcome FROM the_kinds
), the_verdict AS (SELECT outcome, string_agg(
  name || ' is ' || CASE kind WHEN 'number' THEN regexp_replace(value, '([.][0-9]+?)0+$', '\1') WHEN 'boolean' THEN value
    ELSE coalesce('''' || replace(left(value, 80), '''', '''''') || '''', 'NULL') END || ', required ' || required ||
  CASE outcome WHEN 'errored' THEN ': a value of type ' || kind || ' cannot be compared with a ' || wanted ELSE '' END, chr(59) || ' ' ORDER BY place)
  AS message FROM the_outcomes GROUP BY outcome ORDER BY outcome LIMIT 1)
SELECT CASE WHEN the_rows.rows = 1 THEN the_verdict.outcome WHEN the_rows.rows = 0 THEN 'failed' ELSE 'errored' END AS outcome,
  CASE WHEN the_rows.rows = 1 THEN the_verdict.message
    WHEN the_rows.rows = 0 THEN 'no row, required stuck_pct < 1.0'
    ELSE 'the query returned more than one row, and a column is compared in one: aggregate in the query, or require `rows`'
  END AS message, the_rows.rows, pg_catalog.to_json(the_result)::text AS observed
FROM the_verdict CROSS JOIN the_rows LEFT JOIN the_result ON the_rows.rows = 1
$verdict_8$);

CALL pipestate.evaluate_check('0007', 9, 'health-score', 'health_score >= 95.0', 'runbooks/sites-consolidation.md:1132', $check_9$
WITH stuck AS (
  SELECT count(*) AS sites FROM sites
  WHERE (current_stage::text < 'completed' OR current_stage::text > 'completed')
    AND (updated_at IS NULL OR updated_at < now() - interval '2 hours')
), known AS (
  SELECT count(*) AS sites
  FROM (SELECT 1 FROM sites WHERE current_stage IS NOT NULL
        LIMIT (SELECT greatest(10000, 100 * sites) FROM stuck)) AS counted
)
SELECT stuck.sites AS stuck, known.sites AS total,
       coalesce(trunc(100.0 * (known.sites - stuck.sites)
                      / nullif(known.sites, 0), 2), 100.0) AS health_score
FROM stuck, known
$check_9$, frame => $verdict_9$
WITH the_result AS MATERIALIZED (SELECT the_query.* FROM (
{query}
) AS the_query LIMIT 2),
the_rows AS (SELECT count(*) AS rows FROM the_result), the_values AS (
  SELECT 1 AS place, 'health_score' AS name, '>= 95.0' AS required, 'number' AS wanted, the_result.health_score::text AS value,
    pg_catalog.to_json(the_result.health_score) AS json, pg_catalog.pg_typeof(the_result.health_score)::oid AS type
    FROM the_rows LEFT JOIN the_result ON the_rows.rows = 1
), the_kinds AS (SELECT the_values.*, CASE json_typeof(json)
  WHEN 'string' THEN (SELECT CASE WHEN typcategory IN ('S', 'E', 'Z') THEN 'text' WHEN typcategory = 'N' THEN 'number'
    ELSE typname::text END FROM pg_type WHERE oid = type) ELSE json_typeof(json) END AS kind FROM the_values
), the_outcomes AS (SELECT the_kinds.*, CASE WHEN value IS NULL OR kind = 'number' AND value IN ('NaN', 'Infinity', '-Infinity') THEN 'failed'
  WHEN kind <> wanted AND NOT (wanted = 'boolean' AND kind = 'number' AND CAST(value AS text) IN ('0', '1'))
    THEN 'errored'
  WHEN CASE place
    WHEN 1 THEN value::numeric >= 95.0 END THEN 'passed' ELSE 'failed' END AS outcome FROM the_kinds
), the_verdict AS (SELECT outcome, string_agg(
  name || ' is ' || CASE kind WHEN 'number' THEN regexp_replace(value, '([.][0-9]+?)0+$', '\1') WHEN 'boolean' THEN value
    ELSE coalesce('''' || replace(left(value, 80), '''', '''''') || '''', 'NULL') END || ', required ' || required ||
  CASE outcome WHEN 'errored' THEN ': a value of type ' || kind || ' cannot be compared with a ' || wanted ELSE '' END, chr(59) || ' ' ORDER BY place)
  AS message FROM the_outcomes GROUP BY outcome ORDER BY outcome LIMIT 1)
SELECT CASE WHEN the_rows.rows = 1 THEN the_verdict.outcome WHEN the_rows.rows = 0 THEN 'failed' ELSE 'errored' END AS outcome,
  CASE WHEN the_rows.rows = 1 THEN the_verdict.message
    WHEN the_rows.rows = 0 THEN 'no row, required health_score >= 95.0'
    ELSE 'the query returned more than one row, and a column is compared in one: aggregate in the query, or require `rows`'
  END AS message, the_rows.rows, pg_catalog.to_json(the_result)::text AS observed
FROM the_verdict CROSS JOIN the_rows LEFT JOIN the_result ON the_rows.rows = 1
$verdict_9$);

CALL pipestate.evaluate_check('0007', 10, 'soak', 'days_open >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48', 'runbooks/sites-consolidation.md:8', $check_10$
SELECT * FROM pipestate.soak_since WHERE runbook = 'sites-consolidation' AND phase = 'backfill'
ORDER BY longest_gap_hours <= 48 DESC, days_open DESC LIMIT 1
$check_10$, frame => $verdict_10$
WITH the_result AS MATERIALIZED (SELECT the_query.* FROM (
{query}
) AS the_query LIMIT 2),
the_rows AS (SELECT count(*) AS rows FROM the_result), the_values AS (
  SELECT 1 AS place, 'days_open' AS name, '>= 7' AS required, 'number' AS wanted, the_result.days_open::text AS value,
    pg_catalog.to_json(the_result.days_open) AS json, pg_catalog.pg_typeof(the_result.days_open)::oid AS type
    FROM the_rows LEFT JOIN the_result ON the_rows.rows = 1
  UNION ALL SELECT 2 AS place, 'longest_gap_hours' AS name, '<= 48' AS required, 'number' AS wanted, the_result.longest_gap_hours::text AS value,
    pg_catalog.to_json(the_result.longest_gap_hours) AS json, pg_catalog.pg_typeof(the_result.longest_gap_hours)::oid AS type
    FROM the_rows LEFT JOIN the_result ON the_rows.rows = 1
  UNION ALL SELECT 3 AS place, 'hours_since_last_record' AS name, '<= 48' AS required, 'number' AS wanted, the_result.hours_since_last_record::text AS value,
    pg_catalog.to_json(the_result.hours_since_last_record) AS json, pg_catalog.pg_typeof(the_result.hours_since_last_record)::oid AS type
    FROM the_rows LEFT JOIN the_result ON the_rows.rows = 1
), the_kinds AS (SELECT the_values.*, CASE json_typeof(json)
  WHEN 'string' THEN (SELECT CASE WHEN typcategory IN ('S', 'E', 'Z') THEN 'text' WHEN typcategory = 'N' THEN 'number'
    ELSE typname::text END FROM pg_type WHERE oid = type) ELSE json_typeof(json) END AS kind FROM the_values
), the_outcomes AS (SELECT the_kinds.*, CASE WHEN value IS NULL OR kind = 'number' AND value IN ('NaN', 'Infinity', '-Infinity') THEN 'failed'
  WHEN kind <> wanted AND NOT (wanted = 'boolean' AND kind = 'number' AND CAST(value AS text) IN ('0', '1'))
    THEN 'errored'
  WHEN CASE place
    WHEN 1 THEN value::numeric >= 7.0
    WHEN 2 THEN value::numeric <= 48.0
    WHEN 3 THEN value::numeric <= 48.0 END THEN 'passed' ELSE 'failed' END AS outcome FROM the_kinds
), the_verdict AS (SELECT outcome, string_agg(
  name || ' is ' || CASE kind WHEN 'number' THEN regexp_replace(value, '([.][0-9]+?)0+$', '\1') WHEN 'boolean' THEN value
    ELSE coalesce('''' || replace(left(value, 80), '''', '''''') || '''', 'NULL') END || ', required ' || required ||
  CASE outcome WHEN 'errored' THEN ': a value of type ' || kind || ' cannot be compared with a ' || wanted ELSE '' END, chr(59) || ' ' ORDER BY place)
  AS message FROM the_outcomes GROUP BY outcome ORDER BY outcome LIMIT 1)
SELECT CASE WHEN the_rows.rows = 1 THEN the_verdict.outcome WHEN the_rows.rows = 0 THEN 'failed' ELSE 'errored' END AS outcome,
  CASE WHEN the_rows.rows = 1 THEN the_verdict.message
    WHEN the_rows.rows = 0 THEN 'nothing recorded yet, required days_open >= 7 and longest_gap_hours <= 48 and hours_since_last_record <= 48'
    ELSE 'the query returned more than one row, and a column is compared in one: aggregate in the query, or require `rows`'
  END AS message, the_rows.rows, pg_catalog.to_json(the_result)::text AS observed
FROM the_verdict CROSS JOIN the_rows LEFT JOIN the_result ON the_rows.rows = 1
$verdict_10$);

CALL pipestate.judge_gate('0007', 10);

-- lock sites where needed: 200 ms at a time, for up to 60 s
CALL pipestate.lock_tables(ARRAY['sites'],
  the_query => $$SELECT pipestate.referenced(to_regclass('sites'), ARRAY['status', 'extraction_status', 'last_updated', 'last_deployed', 'last_extracted']::text[])$$);

-- Under the lock: checks with `again`, and all of them where the tables were empty before. Then the token,
-- which every statement below demands.

SET LOCAL statement_timeout = '30s';

CALL pipestate.evaluate_again('0007');

CALL pipestate.pass_gate('0007');

CALL pipestate.gated('0007', 1, 'CALL pipestate.soft_drop_columns(''0007'', ''sites-consolidation/readiness'', ''sites'', to_regclass(''sites''), ARRAY[''status'', ''extraction_status'', ''last_updated'', ''last_deployed'', ''last_extracted'']::text[], ARRAY[]::text[], ARRAY[''status'', ''extraction_status'', ''last_updated'', ''last_deployed'', ''last_extracted'']::text[], True)');

CALL pipestate.gated('0007', 2, 'CALL pipestate.replace_comment(''sites'', ''Sites and the one account of their pipeline state: current_stage, counters, last error'', ''0007'')');

CALL pipestate.gated('0007', 3, 'CALL pipestate.record_revision(''upgrade'', ''0007'', ''Contract: drop the five legacy columns of `sites`.'', ''b4a951723cc5996a4e4090eb2d29b19b27a7926ed15405798731b5ca83a41d89'', ''"pipestate_alembic_version"'', ''a person'', NULL)');

CALL pipestate.gated('0007', 4,
  'UPDATE pipestate_alembic_version SET version_num=''0007'' WHERE pipestate_alembic_version.version_num = ''0006'';',
  'CALL pipestate.require_others(''0007'')');

COMMIT;

SELECT pg_catalog.array_to_string(ARRAY[
  'DO $record$',
  'DECLARE',
  '  path CONSTANT text := pg_catalog.current_setting(''search_path'');',
  'BEGIN',
  '  PERFORM pg_catalog.set_config(''search_path'', ''pg_catalog, pg_temp'', true);',
  '  IF to_regclass(''pipestate.schema_record'') IS NOT NULL AND pg_catalog.current_setting(''pipestate.compared'', true) = ''yes'' THEN',
  '    CALL pipestate.record_schema(''0007'', ''a person'');',
  '  END IF;',
  '  PERFORM set_config(''search_path'', path, true);',
  'EXCEPTION WHEN OTHERS THEN',
  '  RAISE WARNING ''the schema was not recorded, so `pipestate drift` compares with an older record: %'', SQLERRM;',
  'END $record$'], E'\n') WHERE ARRAY(SELECT version_num::text FROM pipestate_alembic_version ORDER BY 1) = ARRAY['0007']::text[] \gexec

