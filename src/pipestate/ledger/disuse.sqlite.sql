-- SQLite counts no statements and has no sessions: a check on these views needs a variant there.
CREATE VIEW pipestate_disuse AS
SELECT r.id AS revision, NULL AS days_unused, NULL AS unused_since, NULL AS why, 0 AS observations,
       NULL AS last_observed_at, NULL AS standbys, 0 AS statements
FROM pipestate_rehearsal r WHERE 0;
CREATE VIEW pipestate_running_release AS
SELECT NULL AS pid, NULL AS role, NULL AS application_name, NULL AS application, NULL AS release, NULL AS connected_at
WHERE 0;
