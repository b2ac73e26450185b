"""Finish the jobs of one site, each under its key, and print each that the server has confirmed."""

import os
import sys

from sqlalchemy import NullPool, create_engine
from sqlalchemy.exc import DBAPIError

from pipestate.pipeline.counters import finish_job

SITE, STAGE, JOBS = "counted.gov", "ocr", 4_000


def main() -> int:
    engine = create_engine(os.environ["PIPESTATE_DATABASE_URL"], poolclass=NullPool)
    try:
        with engine.connect() as connection:
            for number in range(JOBS):
                with connection.begin():
                    done = finish_job(connection, SITE, STAGE, job_key=str(number))
                print(number, "claimed" if done.claimed else "counted", flush=True)
    except DBAPIError as error:
        print(f"lost the connection: {str(error.orig).strip().splitlines()[0]}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
