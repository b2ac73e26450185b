"""Counters of a site: finish jobs, claim the single coordinator that follows a stage, and start stages."""
