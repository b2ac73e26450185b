"""Between the two looks of a gate, other sessions go on: what they fill is not the gate's to destroy."""

import pytest
from sqlalchemy.exc import DBAPIError

from attacks.orders import approve
from attacks.project import Project
from attacks.psql import statements
from support.servers import Database

MEANWHILE = {
    "a table that was empty": (("CREATE TABLE customers (id int)",), ("INSERT INTO customers VALUES (1)",)),
    "a new table": ((), ("CREATE TABLE customers AS SELECT 1 AS id",)),
    "a partition that was empty": (
        (
            "CREATE TABLE customers (id int) PARTITION BY RANGE (id)",
            "CREATE TABLE customers_1 PARTITION OF customers FOR VALUES FROM (0) TO (9)",
        ),
        ("INSERT INTO customers VALUES (1)",),
    ),
    "a table that was renamed": (
        ("CREATE TABLE clients AS SELECT 1 AS id",),
        ("ALTER TABLE clients RENAME TO customers",),
    ),
}


@pytest.mark.parametrize("what", MEANWHILE)
def test_what_others_fill_while_the_gate_waits_for_its_lock_is_not_destroyed(
    gated: Project, what: str
) -> None:
    before, since = MEANWHILE[what]
    database: Database = gated.database
    database.run(*before)
    approve(gated)
    script = statements(gated.script("b2:c3"))
    gate = [each for each in script if "$check" in each or ("pipestate." in each and "gated(" not in each)]
    with database.begin() as connection:
        for each in gate:
            connection.exec_driver_sql(each.replace("%", "%%"))
            if "judge_gate" in each:
                database.run(*since)
        with pytest.raises(DBAPIError, match="destroys something of c"):
            connection.exec_driver_sql("CALL pipestate.gated('c3', 1, 'DROP TABLE customers')")
        connection.rollback()
    assert database.rows("SELECT count(*) FROM customers") == [(1,)]
