"""A worker for all queues of the example: `python -m clerk.worker`, with --burst until they are empty.

What the jobs import is imported here, once: RQ forks for each job, and the fork has it already.
"""

import sys

from rq import SimpleWorker, Worker

from clerk import workers

if __name__ == "__main__":
    kind = SimpleWorker if "--simple" in sys.argv else Worker
    kind(list(workers.QUEUES), connection=workers.redis()).work(
        burst="--burst" in sys.argv, logging_level="WARNING"
    )
