"""Migrations on SQLite: sessions, gates, losses and helpers. `engine` implements `migration.engine`."""
