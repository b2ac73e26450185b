"""The SQL of the counters, written once when the module is loaded: a job pays for none of it.

Stage names become column names here and nowhere else, and they come from STAGES only. Times are the
server's clock at the moment of writing, not the start of a transaction that may have waited for a lock.
"""

from dataclasses import dataclass

from pipestate.pipeline.stages import STAGES, STEPS, step_of


@dataclass(frozen=True, slots=True)
class Dialect:
    """How an engine says the few things that differ."""

    name: str
    now: str
    parameter: str

    def __call__(self, sql: str) -> str:
        """Put the clock and this driver's `{{name}}` parameters in."""
        for name in ("site", "key", "error", "stage"):
            sql = sql.replace("{{" + name + "}}", self.parameter.format(name))
        return sql.replace("{{now}}", self.now)


POSTGRESQL = Dialect("postgresql", "clock_timestamp()", "%({})s")
SQLITE = Dialect("sqlite", "strftime('%Y-%m-%d %H:%M:%f000', 'now')", ":{}")
DIALECTS = {dialect.name: dialect for dialect in (POSTGRESQL, SQLITE)}


def names(stages: tuple[str, ...]) -> str:
    """Stage names as an SQL list."""
    return ", ".join(f"'{stage}'" for stage in stages)


def done(stage: str, extra: str = "") -> str:
    return f"sites.{stage}_completed + sites.{stage}_failed{extra} >= sites.{stage}_total"


def step_done(stage: str, extra: str = "") -> str:
    """Is the step of this stage at an end, with one more job of it finished?"""
    peers = [done(peer) for peer in step_of(stage) if peer != stage]
    return " AND ".join([f"sites.current_stage IN ({names(step_of(stage))})", done(stage, extra), *peers])


def any_step_done() -> str:
    """Is the step that the site is in at an end?"""
    return "(" + " OR ".join(f"({step_done(stage)})" for stage in STAGES) + ")"


def started(stage: str) -> str:
    return f"sites.{stage}_total > 0 AND sites.current_stage IS NOT NULL"


def counters(stage: str, table: str = "sites") -> str:
    return f"{table}.{stage}_completed, {table}.{stage}_failed, {table}.{stage}_total"


def counted(stage: str, what: str) -> str:
    """The assignments that count a job."""
    error = (
        f", last_error_stage = '{stage}', last_error_message = {{{{error}}}}, last_error_at = {{{{now}}}}"
        if what == "failed"
        else ""
    )
    return f"{stage}_{what} = sites.{stage}_{what} + 1, updated_at = {{{{now}}}}{error}"


def same_step(one: str, other: str) -> str:
    """Are these two columns stages that run side by side, or the same one?"""
    together = [f"({one} IN ({names(step)}) AND {other} IN ({names(step)}))" for step in STEPS]
    return " OR ".join(together)


RECORD = (
    " ON CONFLICT (subdomain) DO UPDATE SET claimed_at = {{now}},"
    f" attempts = CASE WHEN {same_step('pipeline_claim.stage', 'excluded.stage')}"
    " THEN pipeline_claim.attempts + 1 ELSE 1 END,"
    " stage = excluded.stage"
)
RECORD_CLAIM = (
    "INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)"
    " VALUES ({{site}}, {{stage}}, {{now}}, 1)" + RECORD
)
FORGET_CLAIM = "DELETE FROM pipeline_claim WHERE subdomain = {{site}}"


def increment(stage: str, what: str) -> str:
    return f"UPDATE sites SET {counted(stage, what)} WHERE subdomain = {{{{site}}}} AND {started(stage)}"


def here(stage: str) -> str:
    step = step_of(stage)
    return f"current_stage = '{stage}'" if len(step) == 1 else f"current_stage IN ({names(step)})"


def finish(stage: str, what: str) -> str:
    """Count a job of the step that the site is in, and claim the coordinator where nobody has yet.

    The old flag is false because the WHERE says so, also after waiting for another writer of the row
    (PostgreSQL evaluates it again on the new version). So the new flag is "this statement claimed". Written
    as IS NOT TRUE, it does not make the planner weigh the partial index on the flag for every job.
    """
    peers = "".join(f" AND {done(peer)}" for peer in step_of(stage) if peer != stage)
    return (
        f"UPDATE sites SET {counted(stage, what)}, coordinator_enqueued = ({done(stage, ' + 1')}{peers})"
        f" WHERE subdomain = {{{{site}}}} AND {here(stage)} AND coordinator_enqueued IS NOT TRUE AND {stage}_total > 0"
        f" RETURNING {counters(stage)}, coordinator_enqueued"
    )


def finish_otherwise(stage: str, what: str) -> str:
    """SQLite, which has one writer: count a job of a site that is claimed, or that has moved on."""
    return (
        f"UPDATE sites SET {counted(stage, what)}"
        f" WHERE subdomain = {{{{site}}}} AND (coordinator_enqueued OR NOT {here(stage)}) AND {started(stage)}"
        f" RETURNING {counters(stage)}"
    )


def look(stage: str) -> str:
    return f"SELECT {counters(stage)}, {started(stage)} FROM sites WHERE subdomain = {{{{site}}}}"


def remember(stage: str) -> str:
    """Write a job's key down, where the stage is started; no row comes back for a key that is known."""
    return (
        "INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)"
        f" SELECT subdomain, '{stage}', {{{{key}}}}, {{{{now}}}} FROM sites"
        f" WHERE subdomain = {{{{site}}}} AND {started(stage)} ON CONFLICT DO NOTHING RETURNING subdomain"
    )


def finish_locked(stage: str, what: str, *, keyed: bool) -> str:
    """PostgreSQL: everything that finishing can mean, in one statement that locks the row first.

    1. `site` waits for the row and reads its newest version, the old flag included.
    2. `fresh` writes the job's key down; a key that is known yields no row, and nothing more happens.
    3. `counted` counts and sets the flag, from the newest version as well.
    4. `claim` records who was first, with the age and the attempts of the claim.
    """
    fresh = (
        "fresh AS (INSERT INTO pipeline_job (subdomain, stage, job_key, finished_at)"
        f" SELECT subdomain, '{stage}', {{{{key}}}}, {{{{now}}}} FROM site WHERE started"
        " ON CONFLICT DO NOTHING RETURNING subdomain), "
    )
    return (
        f"WITH site AS (SELECT subdomain, coordinator_enqueued AS was, {started(stage)} AS started,"
        f" {counters(stage)} FROM sites WHERE subdomain = {{{{site}}}} FOR NO KEY UPDATE), "
        f"{fresh if keyed else ''}"
        f"counted AS (UPDATE sites SET {counted(stage, what)},"
        f" coordinator_enqueued = sites.coordinator_enqueued OR ({step_done(stage, ' + 1')})"
        f" FROM site{', fresh' if keyed else ''} WHERE sites.subdomain = site.subdomain AND site.started"
        f"{' AND fresh.subdomain = sites.subdomain' if keyed else ''}"
        f" RETURNING sites.subdomain, {counters(stage)},"
        " sites.coordinator_enqueued AND NOT site.was AS claimed), "
        "claim AS (INSERT INTO pipeline_claim (subdomain, stage, claimed_at, attempts)"
        f" SELECT subdomain, '{stage}', {{{{now}}}}, 1 FROM counted WHERE claimed{RECORD})"
        f" SELECT coalesce(counted.{stage}_completed, site.{stage}_completed),"
        f" coalesce(counted.{stage}_failed, site.{stage}_failed), site.{stage}_total,"
        " coalesce(counted.claimed, false), site.started"
        " FROM site LEFT JOIN counted ON true"
    )


def trigger(stage: str) -> str:
    """A step without any job is no work done: whoever starts it claims at once."""
    some = " + ".join(f"{peer}_total" for peer in step_of(stage))
    return (
        f"SELECT {step_done(stage)} AND {some} > 0 AND NOT coordinator_enqueued"
        " FROM sites WHERE subdomain = {{site}}"
    )


CLAIM = (
    "UPDATE sites SET coordinator_enqueued = true, updated_at = {{now}}"
    f" WHERE subdomain = {{{{site}}}} AND NOT coordinator_enqueued AND {any_step_done()} RETURNING current_stage"
)
EXISTS = "SELECT current_stage FROM sites WHERE subdomain = {{site}}"


@dataclass(frozen=True, slots=True)
class StageSql:
    """The statements of one stage on one engine; those that count, by whether the job failed."""

    increment: tuple[str, str]
    finish: tuple[str, str]
    finish_otherwise: tuple[str, str]
    finish_locked: tuple[str, str]
    finish_keyed: tuple[str, str]
    remember: str
    look: str
    trigger: str


def _stage_sql(write: Dialect, stage: str) -> StageSql:
    ways = ("completed", "failed")
    return StageSql(
        increment=(write(increment(stage, ways[0])), write(increment(stage, ways[1]))),
        finish=(write(finish(stage, ways[0])), write(finish(stage, ways[1]))),
        finish_otherwise=(write(finish_otherwise(stage, ways[0])), write(finish_otherwise(stage, ways[1]))),
        finish_locked=(
            write(finish_locked(stage, ways[0], keyed=False)),
            write(finish_locked(stage, ways[1], keyed=False)),
        ),
        finish_keyed=(
            write(finish_locked(stage, ways[0], keyed=True)),
            write(finish_locked(stage, ways[1], keyed=True)),
        ),
        remember=write(remember(stage)),
        look=write(look(stage)),
        trigger=write(trigger(stage)),
    )


SQL = {(name, stage): _stage_sql(dialect, stage) for name, dialect in DIALECTS.items() for stage in STAGES}
