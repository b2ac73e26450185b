"""The record beside the flag: how old a claim is, and how often the stage was tried."""

from sqlalchemy import Connection

from pipestate.pipeline.counters.statements import DIALECTS, FORGET_CLAIM, RECORD_CLAIM

_RECORD = {name: write(RECORD_CLAIM) for name, write in DIALECTS.items()}
_FORGET = {name: write(FORGET_CLAIM) for name, write in DIALECTS.items()}


def record_claim(conn: Connection, subdomain: str, stage: str) -> None:
    """Another attempt at this stage, from now; the first one, if the last was of another stage."""
    conn.exec_driver_sql(_RECORD[conn.dialect.name], {"site": subdomain, "stage": stage})


def forget_claim(conn: Connection, subdomain: str) -> None:
    conn.exec_driver_sql(_FORGET[conn.dialect.name], {"site": subdomain})
