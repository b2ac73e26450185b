"""The record beside the flag: how old a claim is, and how often the step was tried."""

from sqlalchemy import Connection

from pipestate.pipeline.counters.finish_sql import CLAIM_SQL, FINISH_SQL


def record_claim(conn: Connection, subdomain: str, stage: str) -> None:
    """Record another attempt at this step, from now; the first one, if the last was of another step."""
    conn.exec_driver_sql(FINISH_SQL[conn.dialect.name, stage].record_claim, {"site": subdomain})


def forget_claim(conn: Connection, subdomain: str) -> None:
    """Forget all attempts of this site."""
    conn.exec_driver_sql(CLAIM_SQL[conn.dialect.name].forget_claim, {"site": subdomain})
