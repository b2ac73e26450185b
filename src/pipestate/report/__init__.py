"""HTML report: the gates, numbers over time, and the runbooks' text beside its verdicts."""
