"""Files that pipestate writes into a project: pages, revisions. Planned as drafts first, then written."""
