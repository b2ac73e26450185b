"""Decide about a stuck site, from its counters, its files and the live calls in the queues.

1. Too many attempts: the site needs a person.
2. Its coordinator, or a job of its stage, is still queued or running: skip the site.
3. Jobs are unfinished, or all have failed: resend the jobs that have not succeeded. For OCR the files
   identify them, regardless of the counters. A stage of one job resends it; else the application decides.
4. Otherwise the stage has ended and the coordinator is missing: claim it (again) and send it.

The decision needs neither a database nor a queue: `Rules` holds the values read from them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pipestate.core.errors import ConfigError
from pipestate.core.text import many
from pipestate.pipeline.planning import Result, SubjectOutcome
from pipestate.pipeline.queues.config import SECTION, QueueConfig
from pipestate.pipeline.queues.port import Alive, Call, Destination
from pipestate.pipeline.reconcile.stuck import Counters, Missing, StuckSite, nobody_knows
from pipestate.pipeline.stages import THRESHOLD_HOURS
from pipestate.pipeline.storage import Documents, Storage

# Surrogates come from file names that are not UTF-8; databases refuse them, so they never occur in job keys.
SURROGATES = re.compile(r"[\ud800-\udfff]")
MAX_ATTEMPTS = 5

Keywords = Mapping[str, "list[dict[str, Any]]"]  # of the jobs to send, by stage


class Action(StrEnum):
    """Decision for a site, with the values that `--json` prints."""

    COORDINATOR = "coordinator"
    JOBS = "jobs"
    WAIT = "wait"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class Recovery:
    """Planned recovery of a site.

    `counters` are the new values of a recounted stage. Keys in `succeeded` are already counted there. Other
    job keys are deleted before jobs are sent, so that resent jobs count.
    """

    site: StuckSite
    action: Action
    calls: tuple[Call, ...] = ()
    counters: Mapping[str, Counters] = field(default_factory=dict)
    succeeded: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Rules:
    """Definition of a stuck site, and the inputs of a decision besides it. A person names `site`."""

    config: QueueConfig = field(default_factory=QueueConfig)
    storage: Storage | None = None
    hours: float = THRESHOLD_HOURS
    max_attempts: int = MAX_ATTEMPTS
    site: str | None = None
    alive: Alive = field(default_factory=Alive)
    missing: Missing = nobody_knows

    @property
    def named(self) -> bool:
        return self.site is not None


def decide(site: StuckSite, rules: Rules) -> Result[Recovery]:
    """Return the recovery of this site: RECOVERED with the calls to send, or SKIPPED with the reason."""
    if site.attempts >= rules.max_attempts and not rules.named:
        error = f"; its last error: {site.last_error}" if site.last_error else ""
        return needs_person(site, f"tried {site.attempts} times: a person must repair it{error}")
    config, alive = rules.config, rules.alive
    busy = [
        f"{many(jobs, f'{stage} job')} queued or running"
        for stage in site.step
        if (jobs := alive.of(site.subdomain, config.jobs.get(stage)))
    ]
    if any(alive.of(site.subdomain, config.coordinator(stage)) for stage in site.step):
        busy.insert(0, "its coordinator is queued or running")
    if busy:
        return Result(Recovery(site, Action.WAIT), SubjectOutcome.SKIPPED, busy[0])
    counters = site.counters
    undone = [stage for stage in site.step if not counters[stage].ended or counters[stage].in_vain]
    if undone == ["ocr"]:
        if rules.storage is None:
            raise ConfigError(
                f"{site.subdomain} is stuck in ocr, and only its files say what is missing: "
                "give --storage-dir or set STORAGE_DIR"
            )
        return _ocr(site, rules, rules.storage.documents(site.subdomain))
    if undone:
        return _jobs(site, rules, undone)
    return _coordinator(site, rules, _counts(site, site.step), {})


def needs_person(site: StuckSite, reason: str) -> Result[Recovery]:
    return Result(Recovery(site, Action.PERSON), SubjectOutcome.SKIPPED, reason)


def _ocr(site: StuckSite, rules: Rules, documents: Documents) -> Result[Recovery]:
    """Decide by files instead of counters, because a killed job may have written files before counting."""
    known, there = site.counters["ocr"].total, documents.total
    if there == 0:
        return needs_person(site, f"none of its {known} documents is in the storage")
    if there < known and not rules.named:  # a partly mounted disk must not lower the total
        found = f"only {there} of its {known} documents are in the storage"
        return needs_person(site, f"{found}: if that is right, reconcile --site {site.subdomain}")
    done = len(documents.texts)
    now = {"ocr": Counters(there, done, 0)}
    # The key of a job is the document, or the path of its PDF.
    paths = {path for document, path in documents.pdfs.items() if document in documents.texts}
    succeeded = frozenset(key for key in documents.texts | paths if not SURROGATES.search(key))
    if not documents.missing:
        return _coordinator(site, rules, f"all {many(done, 'document')} have text", now, succeeded)
    keywords = [{"pdf_path": documents.pdfs[document]} for document in documents.missing]
    reason = f"{done} of {many(there, 'document')} have text"
    return _send_jobs(site, rules, {"ocr": keywords}, reason, now, succeeded)


def _jobs(site: StuckSite, rules: Rules, undone: list[str]) -> Result[Recovery]:
    keywords: dict[str, list[dict[str, Any]]] = {}
    for stage in undone:
        missing = rules.missing(site.subdomain, stage)
        total = site.counters[stage].total
        if missing is None and total > 1:
            return needs_person(
                site,
                f"{stage} has {total} jobs, and the missing ones are unknown: name a function, "
                f"missing = ..., under [{SECTION}] in alembic.ini",
            )
        keywords[stage] = [{}] if missing is None else missing
    # All jobs that are not missing count as completed, including those killed before they counted.
    now = {}
    for stage, jobs in keywords.items():
        total = max(site.counters[stage].total, site.counters[stage].completed + len(jobs))
        now[stage] = Counters(total, total - len(jobs), 0)
    if not any(keywords.values()):
        return _coordinator(site, rules, "every job has succeeded", now)
    return _send_jobs(site, rules, keywords, _counts(site, undone), now, frozenset())


def _send_jobs(
    site: StuckSite,
    rules: Rules,
    keywords: Keywords,
    reason: str,
    now: Mapping[str, Counters],
    succeeded: frozenset[str],
) -> Result[Recovery]:
    jobs = rules.config.jobs
    for stage in keywords:
        if stage not in jobs or not jobs[stage].importable:
            return _needs_line(site, f"{stage}_job")
    calls = tuple(_call(jobs[stage], site, extra) for stage, each in keywords.items() for extra in each)
    return Result(Recovery(site, Action.JOBS, calls, now, succeeded), SubjectOutcome.RECOVERED, reason)


def _coordinator(
    site: StuckSite,
    rules: Rules,
    reason: str,
    now: Mapping[str, Counters],
    succeeded: frozenset[str] = frozenset(),
) -> Result[Recovery]:
    place = rules.config.coordinator(site.stage)
    if place is None or not place.importable:
        return _needs_line(site, f"{site.stage}_coordinator")
    lost = "its coordinator was lost" if site.claimed else "no coordinator was claimed"
    recovery = Recovery(site, Action.COORDINATOR, (_call(place, site, {}),), now, succeeded)
    return Result(recovery, SubjectOutcome.RECOVERED, f"{reason}, {lost}")


def _needs_line(site: StuckSite, key: str) -> Result[Recovery]:
    return needs_person(
        site, f"no function to enqueue is configured: write {key} under [{SECTION}] in alembic.ini"
    )


def _call(place: Destination, site: StuckSite, extra: Mapping[str, Any]) -> Call:
    known = {"subdomain": site.subdomain, "run_id": f"{site.subdomain}_recovered"}
    return Call(place, {**known, **extra})


def _counts(site: StuckSite, stages: Sequence[str]) -> str:
    """Tell the counters of these stages."""
    parts = []
    for stage in stages:
        total, completed, failed = site.counters[stage]
        parts.append(f"{stage} {completed}/{total}" + (f", {failed} failed" if failed else ""))
    return ", ".join(parts)
