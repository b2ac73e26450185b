"""Ctrl-C at the instant at which a query is sent, many times: does one of them go on without anybody?"""

import os
import random
import signal
import sys
import threading
import time

import psycopg2

from pipestate.database.interrupt import listen

QUERY = "SELECT pg_sleep(600)"
RUNS = f"FROM pg_stat_activity WHERE state = 'active' AND datname = current_database() AND query = '{QUERY}'"
LATEST_S = 0.001
PATIENCE_S = 2.0


def count_left_running(url: str, times: int) -> int:
    """Interrupt a query so many times, a random moment after it was begun; return how many the server still runs."""
    chance, left = random.Random(7), 0
    onlooker = psycopg2.connect(url)
    onlooker.autocommit = True
    listen()
    for _ in range(times):
        connection = psycopg2.connect(url)
        connection.autocommit = True  # so that the query is the first thing that is sent
        connection.cursor().execute("SELECT 1")
        _interrupt(connection, chance.uniform(0, LATEST_S))
        left += _is_left(onlooker.cursor())
        connection.close()
    onlooker.close()
    return left


def _interrupt(connection: "psycopg2.extensions.connection", seconds: float) -> None:
    begun = threading.Event()

    def press() -> None:
        begun.wait()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    try:
        begun.set()
        connection.cursor().execute(QUERY)
    except KeyboardInterrupt:
        presser.join()


def _is_left(cursor: "psycopg2.extensions.cursor") -> bool:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        cursor.execute(f"SELECT count(*) {RUNS}")
        row = cursor.fetchone()
        if row == (0,):
            return False
        time.sleep(0.01)
    cursor.execute(f"SELECT pg_terminate_backend(pid) {RUNS}")
    return True


if __name__ == "__main__":
    print(count_left_running(sys.argv[1], int(sys.argv[2])))
