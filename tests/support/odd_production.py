"""A production database with one of everything that a copy can get wrong."""

import re

from sqlalchemy import text

from pipestate.ledger.install import install
from support.documentation import examples, find_page
from support.servers import Database, Postgres

READER = "pipestate_reader"

# Roles belong to the whole server: {owner} and {reader} are this database's own.
ODD = (
    "CREATE TYPE mood AS ENUM ('sad', 'it''s ok')",
    "CREATE DOMAIN positive AS integer CHECK (VALUE > 0)",
    "CREATE FUNCTION twice(integer) RETURNS integer IMMUTABLE LANGUAGE sql AS 'SELECT $1 * 2'",
    "CREATE TABLE kinds (gone text, id bigint GENERATED ALWAYS AS IDENTITY (START 7 INCREMENT 3) PRIMARY KEY, "
    "n serial, mood mood, amount positive, doubled integer GENERATED ALWAYS AS (twice(amount)) STORED, raw bytea, "
    "at timestamptz, lasts interval, ratio float8, price numeric, cost money, said text, data jsonb, list text[], "
    "named regclass)",
    "ALTER TABLE kinds DROP COLUMN gone",
    "INSERT INTO kinds (mood, amount, raw, at, lasts, ratio, price, cost, said, data, list, named) "
    "SELECT 'it''s ok', i, decode('00ff5c2e', 'hex'), '2024-02-29 12:00:00.123456+05:30', '-1 mon 3 days 00:00:01', "
    "0.1::float8 + 0.2 * i, 'NaN', 12.5, E'tab\\t newline\\n cr\\r back\\\\slash \\\\. \\\\N ''q'' ünï ✓', "
    "'{\"a\": [1, null]}', ARRAY[NULL, '', 'a,\"b\"'], 'kinds' FROM generate_series(1, 20) AS i",
    "INSERT INTO kinds (said) VALUES (''), (NULL), ('\\.')",
    'CREATE SCHEMA "S.x" AUTHORIZATION {owner}',
    'CREATE TABLE "S.x"."a ""t" ("C,d" integer PRIMARY KEY, "Ünï" text DEFAULT \'x\')',
    'INSERT INTO "S.x"."a ""t" VALUES (1)',
    'ALTER TABLE "S.x"."a ""t" OWNER TO {owner}',
    "CREATE TABLE nothing ()",
    "INSERT INTO nothing DEFAULT VALUES",
    "INSERT INTO nothing DEFAULT VALUES",
    "CREATE UNLOGGED TABLE unlogged (id integer)",
    "INSERT INTO unlogged VALUES (1)",
    "CREATE TABLE parts (id integer, region text) PARTITION BY RANGE (id)",
    "CREATE TABLE parts_low PARTITION OF parts FOR VALUES FROM (0) TO (100)",
    "CREATE TABLE parts_rest PARTITION OF parts DEFAULT PARTITION BY HASH (region)",
    "CREATE TABLE parts_0 PARTITION OF parts_rest FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
    "CREATE TABLE parts_1 PARTITION OF parts_rest FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    "INSERT INTO parts SELECT i * 7, 'r' || i FROM generate_series(1, 40) AS i",
    "CREATE TABLE parent (id integer)",
    "CREATE TABLE child (own text) INHERITS (parent)",
    "ALTER TABLE parent ADD COLUMN later text DEFAULT 'l'",
    "INSERT INTO parent VALUES (1)",
    "INSERT INTO child (id, own) VALUES (2, 'o')",
    "CREATE TABLE hen (id integer PRIMARY KEY, egg integer)",
    "CREATE TABLE egg (id integer PRIMARY KEY, hen integer REFERENCES hen DEFERRABLE)",
    "ALTER TABLE hen ADD CONSTRAINT from_egg FOREIGN KEY (egg) REFERENCES egg DEFERRABLE INITIALLY DEFERRED",
    "INSERT INTO hen VALUES (1, 1)",
    "INSERT INTO egg VALUES (1, 1)",
    "CREATE FUNCTION knows(integer) RETURNS boolean LANGUAGE plpgsql AS "
    "'BEGIN RETURN $1 = 0 OR EXISTS (SELECT FROM hen WHERE id >= 0) OR true; END'",
    "CREATE TABLE checked (id integer, CHECK (knows(id)))",
    "INSERT INTO checked VALUES (1), (-1)",
    "ALTER TABLE checked ADD CONSTRAINT late CHECK (id > 0) NOT VALID",
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''not now''; END'",
    "CREATE TRIGGER refuses BEFORE INSERT ON checked FOR EACH ROW EXECUTE FUNCTION refuse()",
    "CREATE RULE nowhere AS ON INSERT TO unlogged DO INSTEAD NOTHING",
    "CREATE VIEW seen AS SELECT id, said FROM kinds",
    "CREATE MATERIALIZED VIEW b_sums AS SELECT count(*) AS kinds FROM kinds",
    "CREATE MATERIALIZED VIEW a_sums AS SELECT kinds * 2 AS twice FROM b_sums",
    "CREATE MATERIALIZED VIEW unfilled AS SELECT 1 AS x WITH NO DATA",
    "CREATE INDEX odd_index ON kinds (lower(said)) WHERE amount > 3",
    "CREATE SEQUENCE standalone START 5",
    "SELECT nextval('standalone'), nextval('standalone')",
    "CREATE POLICY mine ON kinds TO {owner} USING (id > 0)",
    "CREATE PUBLICATION everything FOR ALL TABLES",
    "CREATE SUBSCRIPTION follows_{owner} CONNECTION 'dbname=nowhere' PUBLICATION p "
    "WITH (connect = false, enabled = false, slot_name = NONE)",
    "SELECT lo_create(0)",
    "CREATE FOREIGN DATA WRAPPER far",
    "CREATE SERVER away FOREIGN DATA WRAPPER far",
    "CREATE FOREIGN TABLE distant (id integer) SERVER away",
    "CREATE VIEW of_distant AS SELECT id FROM distant",
    "COMMENT ON TABLE kinds IS 'one of ''each'''",
    "GRANT SELECT ON seen TO PUBLIC",
    "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {owner}",
    "CREATE TABLE alembic_version (version_num varchar(32) PRIMARY KEY)",
    "INSERT INTO alembic_version VALUES ('a1')",
    "CREATE SCHEMA IF NOT EXISTS pipestate_archive",
    "CREATE TABLE pipestate_archive.old (id integer)",
)
# What wakes at every later statement.
LAST = (
    "CREATE FUNCTION no_more() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no DDL''; END'",
    "CREATE EVENT TRIGGER no_ddl ON ddl_command_start WHEN TAG IN ('CREATE TABLE', 'REFRESH MATERIALIZED VIEW') "
    "EXECUTE FUNCTION no_more()",
)
GRANTS = (
    'GRANT USAGE ON SCHEMA "S.x" TO {reader}',
    'GRANT SELECT ON ALL TABLES IN SCHEMA "S.x" TO {reader}',
    "REVOKE SELECT ON SEQUENCE kinds_id_seq, kinds_n_seq FROM {reader}",
    "UPDATE pg_class SET relacl = NULL WHERE relname IN ('kinds_id_seq', 'kinds_n_seq')",  # as pg_dump writes it
)


def make_odd(postgres: Postgres) -> tuple[Database, Database]:
    """Make an odd production, and the role of docs/how-to/roles.md for it."""
    production = postgres.create()
    named = {"owner": f"owner_{production.url.database}", "reader": f"{READER}_{production.url.database}"}
    with production.begin() as connection:
        install(connection)
        connection.execute(
            text("INSERT INTO pipestate.observation (name, value, source, actor) VALUES ('x', 1, 's', 'a')")
        )
    production.run(
        f"CREATE ROLE {named['owner']}", *(each.replace("{owner}", named["owner"]) for each in ODD)
    )
    for example in examples(find_page("roles.md")):
        if example.language == "sql" and READER in example.text:
            script = example.text.replace("shop_owner", str(production.url.username))
            production.run(re.sub(rf"\b{READER}\b", named["reader"], script))
    production.run(
        *(each.format(**named) for each in GRANTS),
        f"REVOKE TEMPORARY ON DATABASE {production.url.database} FROM PUBLIC",
        f"ALTER DATABASE {production.url.database} SET app.tenant = 'it''s'",
        f'ALTER ROLE {named["reader"]} SET search_path = public, "S.x"',
        *LAST,
    )
    return production, Database(production.url.set(username=named["reader"], password="change me"))


def drop_odd(postgres: Postgres, production: Database) -> None:
    name = production.url.database
    production.run(f"DROP SUBSCRIPTION follows_owner_{name}")
    production.run(*(f"DROP OWNED BY {role}_{name} CASCADE" for role in ("owner", READER)))
    postgres.drop(production)
    Database(postgres.admin).run(*(f"DROP ROLE {role}_{name}" for role in ("owner", READER)))
