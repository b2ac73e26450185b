"""Demo of the complete shipped migration, on temporary servers."""
