"""URLs, drivers, connections, cancelling and read-only sessions, for PostgreSQL and SQLite."""
