"""What the guard costs: an empty revision on a database with 3,000 tables, beside plain Alembic.

Whole processes, `alembic upgrade head` with and without the two lines in env.py, interleaved in one run; the figure
is the ratio of the medians. Every table has eleven columns and a key.

    python benchmarks/guard.py --tables 3000 --rounds 11
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy.engine import URL

from _common import execute, plain
from _results import keep
from pipestate.database.embedded import embedded_server

MOST, FEWEST_ROUNDS = 1.3, 7
GUARD = "from pipestate.environment import guard\n\nguard(context)\n"
ENV = """from alembic import context
from sqlalchemy import create_engine

{guard}
with create_engine(context.config.get_main_option("sqlalchemy.url")).connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
"""
REVISION = """revision, down_revision = "a1", None


def upgrade():
    pass


def downgrade():
    pass
"""


def fill(database: URL, tables: int) -> None:
    """Create the tables, a hundred in one statement."""
    columns = ", ".join(f"c{number} text" for number in range(10))
    for first in range(0, tables, 100):
        names = range(first, min(first + 100, tables))
        execute(database, ";".join(f"CREATE TABLE t{n} (id integer PRIMARY KEY, {columns})" for n in names))
    execute(database, "VACUUM ANALYZE")


def lay_out(root: Path, database: URL, *, guarded: bool) -> Path:
    """Write a project with one empty revision."""
    (root / "versions").mkdir(parents=True)
    (root / "versions" / "a1.py").write_text(REVISION)
    (root / "env.py").write_text(ENV.format(guard=GUARD if guarded else ""))
    url = plain(database).replace("postgresql:", "postgresql+psycopg2:").replace("%", "%%")
    (root / "alembic.ini").write_text(f"[alembic]\nscript_location = %(here)s\nsqlalchemy.url = {url}\n")
    return root


def seconds(root: Path, database: URL) -> float:
    """Take the database back to base, and time one upgrade."""
    execute(database, "DROP TABLE IF EXISTS alembic_version")
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "alembic", "upgrade", "head"], cwd=root, check=True, capture_output=True
    )
    return time.perf_counter() - start


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=11)
    options = parser.parse_args()
    if options.rounds < FEWEST_ROUNDS:
        parser.error(f"--rounds must be at least {FEWEST_ROUNDS}: fewer say little")
    with embedded_server() as server, tempfile.TemporaryDirectory() as directory:
        fill(server, options.tables)
        arms = {
            name: lay_out(Path(directory) / name, server, guarded=name == "guarded")
            for name in ("plain", "guarded")
        }
        taken: dict[str, list[float]] = {name: [] for name in arms}
        for number in range(options.rounds + 1):
            for name, root in arms.items():
                took = seconds(root, server)
                if number:  # the first one warms up
                    taken[name].append(took)
    medians = {name: statistics.median(times) for name, times in taken.items()}
    ratio = medians["guarded"] / medians["plain"]
    name = f"an empty revision on {options.tables:,} tables, guarded, beside plain Alembic"
    print(f"{name}: {medians['guarded'] * 1e3:.0f} ms, {medians['plain'] * 1e3:.0f} ms, ratio {ratio:.2f}")
    return 0 if keep(name, ratio, f"at most {MOST}", ok=ratio <= MOST) else 1


if __name__ == "__main__":
    sys.exit(main())
