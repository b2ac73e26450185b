"""Reports for people and machines: one file per format, each a function of the report."""
