"""Schemas that a soft drop could get wrong, each with what is dropped and what must become of it."""

from dataclasses import dataclass

IDENTICAL = "identical"


@dataclass(frozen=True)
class Odd:
    """Statements that make it, and the answer: identical, or a part of the sentence that refuses it.

    `column` is the answer where that of the column x alone is another one. `since` is the first version of PostgreSQL
    that knows the statements.
    """

    statements: tuple[str, ...]
    answer: str = IDENTICAL
    column: str | None = None
    since: int = 13


def odd(*statements: str, answer: str = IDENTICAL, column: str | None = None, since: int = 13) -> Odd:
    return Odd(statements, answer, column, since)


def column(type_: str, value: str, *more: str, column: str | None = None, since: int = 13) -> Odd:
    """A table of three rows whose last column, `x`, is of that type; the third row's is NULL where it may be."""
    third = "" if "NOT NULL" in type_ or "nn" in type_ else ", (3, 'c', NULL)"
    before = [each for each in more if each.startswith("CREATE DOMAIN") or each.startswith("CREATE TYPE")]
    after = [each for each in more if each not in before]
    return Odd(
        (
            *before,
            f"CREATE TABLE t (id int PRIMARY KEY, name text, x {type_})",
            f"INSERT INTO t (id, name, x) VALUES (1, 'a', {value}), (2, 'b', {value}){third}",
            *after,
        ),
        column=column,
        since=since,
    )


ROWS = "INSERT INTO t SELECT n, 'name ' || n, n FROM generate_series(1, 5) n"
PLAIN = ("CREATE TABLE t (id int PRIMARY KEY, name text, x int)", ROWS)

# What hangs on a table as a whole, and on its column x alike.
EITHER = {
    "plain": odd(*PLAIN),
    "a domain": column("d", "'v'", "CREATE DOMAIN d AS text"),
    "a domain with a default": column("d", "'v'", "CREATE DOMAIN d AS text DEFAULT 'w'"),
    "a domain that is not null": column(
        "nn", "'v'", "CREATE DOMAIN nn AS text NOT NULL", column="rejects NULL"
    ),
    "a domain with a check": column("d", "7", "CREATE DOMAIN d AS int CHECK (VALUE > 5)"),
    "a domain over a domain": column(
        "e",
        "'vv'",
        "CREATE DOMAIN d AS varchar(9) DEFAULT 'w'",
        "CREATE DOMAIN e AS d CHECK (length(VALUE) > 1)",
    ),
    "a domain with a default of the column": column(
        "d DEFAULT 'z'", "'v'", "CREATE DOMAIN d AS text DEFAULT 'w'"
    ),
    "an array of a domain": column("d[]", "'{7,8}'", "CREATE DOMAIN d AS int CHECK (VALUE > 5)"),
    "an owned sequence": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x serial)",
        "INSERT INTO t (id) SELECT generate_series(1, 9)",
        "COMMENT ON SEQUENCE t_x_seq IS 'counts'",
    ),
    "a sequence of another name, cycling": odd(
        "CREATE SEQUENCE s AS smallint INCREMENT 3 MAXVALUE 90 CYCLE",
        "CREATE TABLE t (id int PRIMARY KEY, x int DEFAULT nextval('s'))",
        "ALTER SEQUENCE s OWNED BY t.x",
        "INSERT INTO t (id) SELECT generate_series(1, 40)",
    ),
    "a toasted column": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x text)",
        "ALTER TABLE t ALTER x SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT n, (SELECT string_agg(md5((n * i)::text), '') FROM generate_series(1, 4000) i) "
        "FROM generate_series(1, 3) n",
    ),
    "a collation": column('text COLLATE "C"', "'ä'"),
    "an enum": column("mood", "'sad'", "CREATE TYPE mood AS ENUM ('sad', 'glad')"),
    "an enum with a default": column(
        "mood DEFAULT 'glad'", "'sad'", "CREATE TYPE mood AS ENUM ('sad', 'glad')"
    ),
    "a composite": column("pair", "ROW(1, NULL)", "CREATE TYPE pair AS (a int, b text)"),
    "an array": column("int[]", "'{{1,2},{3,4}}'"),
    "numbers of equal value": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x numeric)",
        "INSERT INTO t VALUES (1, 1.0), (2, 1.00), (3, 'NaN'), (4, 1e300)",
    ),
    "floats": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x float8)",
        "INSERT INTO t VALUES (1, '-0'), (2, 0), (3, 'NaN'), (4, 'infinity'), (5, 0.1 + 0.2::float8)",
    ),
    "times without end": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x timestamptz)",
        "INSERT INTO t VALUES (1, 'infinity'), (2, '-infinity'), (3, '4713-01-01 BC'), (4, '294276-01-01')",
    ),
    "json": column("json", '\'{"b": 1,  "a": 2}\''),
    "points": column("point", "'(1,2)'"),
    "bytes": column("bytea", "'\\x00ff'"),
    "padded text": column("char(9)", "'v'"),
    "bits": column("bit(5)", "B'10101'"),
    "intervals": column("interval", "'1 mon -30 days'"),
    "a default that changes with time": column("timestamptz DEFAULT now()", "'2025-01-01'"),
    "a default that calls a function": odd(
        "CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 42'",
        "CREATE TABLE t (id int PRIMARY KEY, x int DEFAULT f() + 1)",
        "INSERT INTO t SELECT generate_series(1, 3)",
    ),
    "a value that ADD COLUMN filled in": odd(
        *PLAIN[:1],
        ROWS,
        "ALTER TABLE t ADD COLUMN y int DEFAULT 7",
        "ALTER TABLE t DROP x",
        "ALTER TABLE t RENAME y TO x",
    ),
    "not null": column("text NOT NULL", "'v'"),
    "not null, with a name": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x int CONSTRAINT must_be CHECK (x > 0))",
        "ALTER TABLE t ADD CONSTRAINT x_is_there NOT NULL x",
        "INSERT INTO t VALUES (1, 1)",
        since=18,
    ),
    "a unique constraint": odd(
        *PLAIN, "ALTER TABLE t ADD CONSTRAINT u UNIQUE (name, x) DEFERRABLE INITIALLY DEFERRED"
    ),
    "a unique constraint over NULLs": odd(
        *PLAIN, "ALTER TABLE t ADD CONSTRAINT u UNIQUE NULLS NOT DISTINCT (x)", since=15
    ),
    "an exclusion constraint": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x tsrange, CONSTRAINT ex EXCLUDE USING gist (x WITH &&))",
        "INSERT INTO t VALUES (1, '[2025-01-01,2025-02-01)'), (2, '[2025-03-01,)'), (3, NULL)",
    ),
    "a check that is not valid": odd(*PLAIN, "ALTER TABLE t ADD CONSTRAINT c CHECK (x > 3) NOT VALID"),
    "a check that is not enforced": odd(
        *PLAIN, "ALTER TABLE t ADD CONSTRAINT c CHECK (x > 3) NOT ENFORCED", since=18
    ),
    "indexes of all kinds": odd(
        *PLAIN,
        "CREATE INDEX i1 ON t (x) INCLUDE (name)",
        "CREATE INDEX i2 ON t ((x + 1)) WHERE x > 2",
        'CREATE UNIQUE INDEX i3 ON t (name COLLATE "C" DESC NULLS LAST, x)',
        "CREATE INDEX i4 ON t USING hash (x) WITH (fillfactor = 70)",
        "CREATE INDEX i5 ON t USING brin (x)",
    ),
    "comments": odd(
        *PLAIN,
        "CREATE INDEX i ON t (x)",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (x > 0)",
        "COMMENT ON TABLE t IS 'a table'",
        "COMMENT ON COLUMN t.x IS 'a column''s'",
        "COMMENT ON INDEX i IS 'an index'",
        "COMMENT ON CONSTRAINT c ON t IS 'a rule'",
    ),
    "statistics": odd(
        *PLAIN,
        "ALTER TABLE t ALTER x SET STATISTICS 500",
        "ALTER TABLE t ALTER x SET (n_distinct = -0.5, n_distinct_inherited = 7)",
        "CREATE STATISTICS st (ndistinct, dependencies) ON name, x FROM t",
        "ALTER STATISTICS st SET STATISTICS 321",
        "COMMENT ON STATISTICS st IS 'together'",
    ),
    "storage": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x text)",
        "ALTER TABLE t ALTER x SET STORAGE MAIN",
        "INSERT INTO t VALUES (1, repeat('ab', 5000))",
    ),
    "compression": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x text COMPRESSION pglz)",
        "INSERT INTO t VALUES (1, repeat('ab', 5000))",
        since=14,
    ),
    "a cluster mark": odd(*PLAIN, "CREATE INDEX i ON t (x)", "CLUSTER t USING i"),
    "a replica identity": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x int NOT NULL)",
        "INSERT INTO t VALUES (1, 1)",
        "CREATE UNIQUE INDEX i ON t (x)",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX i",
        column="replica identity index public.i",
    ),
    "grants": odd(*PLAIN, "GRANT SELECT ON t TO PUBLIC", "GRANT UPDATE (x), INSERT (x, name) ON t TO PUBLIC"),
    "row security": odd(
        *PLAIN,
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
        "CREATE POLICY p ON t USING (name <> 'hidden')",
    ),
    "a publication": odd(*PLAIN, "CREATE PUBLICATION p FOR TABLE t", column="published by p"),
    "a publication of all tables": odd(
        *PLAIN, "CREATE PUBLICATION p FOR ALL TABLES", column="published by p"
    ),
    "a foreign key": odd(
        "CREATE TABLE p (id int PRIMARY KEY)",
        "INSERT INTO p VALUES (1)",
        *PLAIN[:1],
        "ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (x) REFERENCES p ON DELETE CASCADE DEFERRABLE",
        "INSERT INTO t VALUES (1, 'a', 1), (2, 'b', NULL)",
        "COMMENT ON CONSTRAINT fk ON t IS 'points'",
    ),
    "a foreign key that is not valid": odd(
        "CREATE TABLE p (id int PRIMARY KEY)",
        *PLAIN,
        "ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (x) REFERENCES p NOT VALID",
    ),
    "a foreign key that is not enforced": odd(
        "CREATE TABLE p (id int PRIMARY KEY)",
        *PLAIN,
        "ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (x) REFERENCES p NOT ENFORCED",
        since=18,
    ),
    "a foreign key to itself": odd(*PLAIN, "ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (x) REFERENCES t"),
    "a key of two columns": odd(
        "CREATE TABLE t (a uuid, b text, name text, x int, PRIMARY KEY (a, b))",
        "INSERT INTO t SELECT md5((n / 3)::text)::uuid, n::text, 'n', n FROM generate_series(1, 30) n",
    ),
    "an unlogged table with settings": odd(
        "CREATE UNLOGGED TABLE t (id int PRIMARY KEY, x int) WITH (fillfactor = 70, autovacuum_enabled = off)",
        "INSERT INTO t VALUES (1, 1)",
    ),
    "a child": odd(
        "CREATE TABLE p (id int PRIMARY KEY, x int)",
        "CREATE TABLE t (id int PRIMARY KEY, x int) INHERITS (p)",
        "INSERT INTO t VALUES (1, 1)",
        answer="public.t of public.p is a partition or a child",
        column="public.t inherits x from public.p",
    ),
    "a parent": odd(
        *PLAIN,
        "CREATE TABLE c () INHERITS (t)",
        "INSERT INTO c VALUES (9, 'c', 9)",
        answer="public.c of public.t inherits from a table that is dropped",
        column=IDENTICAL,
    ),
    "a partitioned table": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x int) PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (9)",
        "CREATE UNIQUE INDEX u ON t (id, x)",
        "ALTER INDEX t1_id_x_idx RENAME TO by_hand",
        "CREATE INDEX i ON t1 (x)",
        "ALTER TABLE t ADD CONSTRAINT c CHECK (x > 0)",
        "INSERT INTO t VALUES (1, 1)",
    ),
    "a partition": odd(
        "CREATE TABLE w (id int PRIMARY KEY, x int) PARTITION BY RANGE (id)",
        "CREATE TABLE t PARTITION OF w FOR VALUES FROM (0) TO (9)",
        "INSERT INTO t VALUES (1, 1)",
        answer="public.t of public.w is a partition or a child",
        column="public.t inherits x from public.w",
    ),
    "a view reads it": odd(*PLAIN, "CREATE VIEW v AS SELECT id, x FROM t", answer="view public.v"),
    "a materialized view reads it": odd(
        *PLAIN, "CREATE MATERIALIZED VIEW v AS SELECT id, x FROM t", answer="view public.v"
    ),
    "a function reads it": odd(
        *PLAIN,
        "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT sum(x) FROM t; END",
        answer="function public.f()",
        since=14,
    ),
    "a policy of another table reads it": odd(
        *PLAIN,
        "CREATE TABLE o (id int)",
        "CREATE POLICY p ON o USING (id IN (SELECT x FROM t))",
        answer="policy p on table public.o",
    ),
    "a foreign key points at it": odd(
        *PLAIN,
        "ALTER TABLE t ADD UNIQUE (x)",
        "CREATE TABLE o (x int REFERENCES t (x))",
        answer="foreign key o_x_fkey of public.o",
    ),
}
# What matters only for the column.
COLUMN = {
    "an identity": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x int GENERATED ALWAYS AS IDENTITY)",
        "INSERT INTO t (id) VALUES (1)",
        answer="x is an identity column",
    ),
    "a generated column": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x int GENERATED ALWAYS AS (id * 2) STORED)",
        "INSERT INTO t (id) VALUES (1)",
    ),
    "a virtual column": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x int GENERATED ALWAYS AS (id * 2) VIRTUAL)",
        "INSERT INTO t (id) VALUES (1)",
        since=18,
    ),
    "a generated column reads it": odd(
        "CREATE TABLE t (id int PRIMARY KEY, y int, x int, z int GENERATED ALWAYS AS (x * 2) STORED)",
        "INSERT INTO t (id, x) VALUES (1, 1)",
        answer="computed column z of public.t",
    ),
    "a policy reads it": odd(
        *PLAIN, "CREATE POLICY p ON t USING (x > 0)", answer="policy p on table public.t"
    ),
    "a trigger waits for it": odd(
        *PLAIN,
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER g BEFORE UPDATE OF x ON t FOR EACH ROW EXECUTE FUNCTION f()",
        answer="trigger g on table public.t",
    ),
    "a publication of columns": odd(
        *PLAIN, "CREATE PUBLICATION p FOR TABLE t (id, x)", answer="published by p", since=15
    ),
    "a publication of its schema": odd(
        *PLAIN, "CREATE PUBLICATION p FOR TABLES IN SCHEMA public", answer="published by p", since=15
    ),
    "a publication of a partition": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x int) PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (9)",
        "CREATE PUBLICATION p FOR TABLE t1",
        answer="published by p",
    ),
    "a publication of the root": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x int) PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (9)",
        "CREATE PUBLICATION p FOR TABLE t WITH (publish_via_partition_root)",
        answer="published by p",
    ),
    "a domain whose check fails on NULL": odd(
        "CREATE FUNCTION f(v int) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN IF v IS NULL THEN RAISE 'no'; END IF; RETURN true; END $$",
        "CREATE DOMAIN d AS int CHECK (f(VALUE))",
        "CREATE TABLE t (id int PRIMARY KEY, x d)",
        "INSERT INTO t VALUES (1, 1)",
        answer="rejects NULL",
    ),
    "a publication of rows": odd(
        *PLAIN, "CREATE PUBLICATION p FOR TABLE t WHERE (x > 0)", answer="published by p", since=15
    ),
    "part of the primary key": odd(
        "CREATE TABLE t (id int, x int, PRIMARY KEY (id, x))",
        "INSERT INTO t VALUES (1, 1)",
        answer="part of the primary key t_pkey",
    ),
    "no primary key": odd("CREATE TABLE t (id int, x int)", "INSERT INTO t VALUES (1, 1), (1, 1)"),
    "not the last column": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x int, name text)",
        "INSERT INTO t VALUES (1, 1, 'a')",
    ),
    "statistics of an index": odd(
        *PLAIN,
        "CREATE INDEX i ON t ((x + 1))",
        "ALTER INDEX i ALTER COLUMN 1 SET STATISTICS 77",
    ),
    "a publication of other columns": odd(*PLAIN, "CREATE PUBLICATION p FOR TABLE t (id)", since=15),
    "included in a unique constraint": odd(
        *PLAIN, "ALTER TABLE t ADD CONSTRAINT u UNIQUE (name) INCLUDE (x)"
    ),
    "included in the primary key": odd(
        "CREATE TABLE t (id int, x int, PRIMARY KEY (id) INCLUDE (x))",
        "INSERT INTO t VALUES (1, 1)",
        answer="part of the primary key t_pkey",
    ),
    "included in an exclusion constraint": odd(
        "CREATE TABLE t (id int PRIMARY KEY, during tsrange, x int, "
        "CONSTRAINT ex EXCLUDE USING gist (during WITH &&) INCLUDE (x))",
        "INSERT INTO t VALUES (1, '[2025-01-01,2025-02-01)', 1)",
    ),
    "an exclusion constraint on an expression": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x int, CONSTRAINT ex EXCLUDE USING gist (int4range(x, x + 1) WITH &&))",
        "INSERT INTO t VALUES (1, 1), (2, 5)",
    ),
    "an exclusion constraint for some rows": odd(
        "CREATE TABLE t (id int PRIMARY KEY, during tsrange, x int, "
        "CONSTRAINT ex EXCLUDE USING gist (during WITH &&) WHERE (x > 0))",
        "INSERT INTO t VALUES (1, '[2025-01-01,2025-02-01)', 1)",
    ),
    "a unique column with a constant default": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x int DEFAULT 7 UNIQUE)", "INSERT INTO t VALUES (1, 1), (2, 2)"
    ),
    "a rule reads it": odd(
        *PLAIN,
        "CREATE TABLE o (x int)",
        "CREATE RULE r AS ON INSERT TO t DO ALSO INSERT INTO o VALUES (NEW.x)",
        answer="rule r of public.t",
    ),
    "a trigger function names it": odd(
        *PLAIN,
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.name := NEW.x::text; RETURN NEW; END'",
        "CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        answer="drop_triggers=['g']",
    ),
    "a trigger function names it in capitals and quotes": odd(
        *PLAIN,
        """CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM OLD . "x"; RETURN NEW; END'""",
        "CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW EXECUTE FUNCTION f()",
        answer="which names x",
    ),
    "a trigger reads it from a transition table": odd(
        *PLAIN,
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM sum(x) FROM fresh; RETURN NULL; END'",
        "CREATE TRIGGER g AFTER INSERT ON t REFERENCING NEW TABLE AS fresh FOR EACH STATEMENT EXECUTE FUNCTION f()",
        answer="which names x",
    ),
    "a typed table": odd(
        "CREATE TYPE ty AS (id int, x int)",
        "CREATE TABLE t OF ty",
        "INSERT INTO t VALUES (1, 1)",
        answer="typed table",
    ),
    "two parents": odd(
        "CREATE TABLE t (id int, x int)",
        "CREATE TABLE o (x int)",
        "CREATE TABLE c () INHERITS (t, o)",
        answer="comes from several parents",
    ),
    "whole rows elsewhere": odd(
        *PLAIN,
        "CREATE TABLE o (was t)",
        "INSERT INTO o SELECT t FROM t",
        answer="column was of public.o stores whole rows",
    ),
    "1,600 columns": odd(
        "DO $$ BEGIN EXECUTE 'CREATE TABLE t (x int, ' || (SELECT string_agg('c' || n || ' bool', ', ') "
        "FROM generate_series(1, 1599) n) || ')'; END $$",
        answer="1,600 columns",
    ),
    "part of a partition key": odd(
        "CREATE TABLE t (id int, x int) PARTITION BY LIST ((x + 1))",
        "CREATE TABLE t1 PARTITION OF t DEFAULT",
        answer="part of the partition key of public.t",
    ),
    "partitions of partitions": odd(
        "CREATE TABLE t (id int, x int NOT NULL, name text) PARTITION BY RANGE (id)",
        "CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (9) PARTITION BY LIST (name)",
        "CREATE TABLE t2 (name text, x int NOT NULL, id int)",
        "ALTER TABLE t1 ATTACH PARTITION t2 DEFAULT",
        "ALTER TABLE t2 ADD CONSTRAINT own CHECK (x < 99)",
        "CREATE UNIQUE INDEX own_u ON t2 (id, x)",
        "INSERT INTO t VALUES (1, 1, 'a'), (2, 2, 'b')",
    ),
    "a family with rules of its own": odd(
        "CREATE TABLE t (id int, x int, CONSTRAINT c CHECK (x > 0))",
        "CREATE TABLE c1 (y int, CONSTRAINT c CHECK (x > 0), CONSTRAINT own CHECK (x < 99)) INHERITS (t)",
        "INSERT INTO t VALUES (1, 1)",
        "INSERT INTO c1 VALUES (2, 2, 2)",
    ),
}
# What matters only for the whole table.
TABLE = {
    "identities": odd(
        "CREATE TABLE t (id int GENERATED BY DEFAULT AS IDENTITY (START 7 INCREMENT 2) PRIMARY KEY, x int GENERATED ALWAYS AS IDENTITY, y int)",
        "INSERT INTO t (y) SELECT generate_series(1, 5)",
    ),
    "generated columns": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x int GENERATED ALWAYS AS (id * 2) STORED)",
        "INSERT INTO t (id) VALUES (1)",
    ),
    "no primary key": odd("CREATE TABLE t (id int, x int)", "INSERT INTO t VALUES (1, 1), (1, 1)"),
    "not the last column": odd(
        "CREATE TABLE t (id int PRIMARY KEY, x int, name text)",
        "ALTER TABLE t DROP x",
        "INSERT INTO t VALUES (1, 'a')",
    ),
    "triggers and rules": odd(
        *PLAIN,
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER g BEFORE UPDATE OF x ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "ALTER TABLE t DISABLE TRIGGER g",
        "CREATE RULE r AS ON DELETE TO t DO INSTEAD NOTHING",
    ),
    "a publication of its schema": odd(*PLAIN, "CREATE PUBLICATION p FOR TABLES IN SCHEMA public", since=15),
    "a view": odd(
        "CREATE TABLE o (id int)", "CREATE VIEW t AS SELECT * FROM o", answer="public.t is not a table"
    ),
}
