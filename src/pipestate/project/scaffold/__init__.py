"""Files that pipestate writes into a project: runbooks and revisions, planned as drafts first."""
