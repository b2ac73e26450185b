"""The pipeline at work: what workers and operators call."""
