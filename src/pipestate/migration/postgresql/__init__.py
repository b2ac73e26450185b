"""Migrations on PostgreSQL: sessions, gates, losses and helpers. `engine` implements `migration.engine`."""
