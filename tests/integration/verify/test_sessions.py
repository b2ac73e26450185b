"""What pipestate needs of a session: settings for its transaction alone, so that a pooler may stand between."""

from sqlalchemy import Connection

from pipestate.database import connections as db
from support.servers import Database

WANTED = {"TimeZone": "UTC", "standard_conforming_strings": "on", "row_security": "off"}


def settings_must_hold(connection: Connection) -> None:
    found = {name: connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in WANTED}
    assert found == WANTED


def test_readers_and_writers_set_what_they_need_in_their_transaction(pg: Database) -> None:
    pg.run(f"ALTER DATABASE {pg.url.database} SET TimeZone = 'Asia/Tokyo'")
    with db.reader(pg.url) as connection:
        settings_must_hold(connection)
        snapshot = connection.exec_driver_sql("SELECT pg_export_snapshot()").scalar_one()
        with db.reader(pg.url, snapshot=snapshot) as other:
            settings_must_hold(other)
    with db.writer(pg.url) as connection:
        settings_must_hold(connection)


def test_no_connection_brings_options_which_pgbouncer_would_refuse(pg: Database) -> None:
    with db.reader(pg.url) as connection:
        driver = connection.connection.dbapi_connection
        assert driver is not None
        assert not driver.get_dsn_parameters().get("options")
