"""Position, and where a database stands in them."""
