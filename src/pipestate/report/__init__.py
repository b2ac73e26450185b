"""One page for a browser: the gates, what was observed over time, the runbooks' text beside its verdicts."""
