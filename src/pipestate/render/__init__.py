"""Reports as people and machines read them: one file a format, each a function of the report."""
