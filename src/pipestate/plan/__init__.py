"""Plans as data: what pipestate will ask a database, and do to it, before anything runs."""
