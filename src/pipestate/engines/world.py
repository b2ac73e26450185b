"""The world of a look on PostgreSQL: what a check sees and may do, wherever it runs; also in scripts."""

# What a check sees, whatever the role, the database, a psqlrc or
# somebody's env.py has set. Set for a transaction or a savepoint.
WORLD = {
    "transaction_read_only": "on",
    "row_security": "off",
    "TimeZone": "UTC",
    "standard_conforming_strings": "on",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "transform_null_equals": "off",
    "array_nulls": "on",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "quote_all_identifiers": "off",
    "lock_timeout": "10s",
    # A row that a validated CHECK or NOT NULL rules out need not be looked for.
    "constraint_exclusion": "on",
    # What the planner takes for expensive is compiled first, which takes longer than a check that finds nothing.
    "jit": "off",
}

# The server's own functions come first on the path, whatever it is, and temporary tables last, which otherwise come
# before everything: a table may be anywhere on it, but neither somebody's `now()` nor a table of this session stands
# in for what is there.
CATALOGUE_FIRST = (
    "pg_catalog.concat_ws(', ', 'pg_catalog', (SELECT pg_catalog.string_agg(pg_catalog.quote_ident(s.name::text), ', ' "
    "ORDER BY s.place) FROM pg_catalog.unnest(pg_catalog.current_schemas(false)) WITH ORDINALITY AS s (name, place) "
    "WHERE s.name <> 'pg_catalog'::name AND NOT pg_catalog.starts_with(s.name::text, 'pg_temp_')), 'pg_temp')"
)


def world_settings() -> list[str]:
    """Write the calls that set the world, as SQL expressions."""
    values = {name: f"'{value}'" for name, value in WORLD.items()} | {"search_path": CATALOGUE_FIRST}
    return [f"pg_catalog.set_config('{name}', {value}, true)" for name, value in values.items()]
