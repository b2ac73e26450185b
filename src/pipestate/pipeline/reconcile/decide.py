"""What to do about a stuck site: pure, from its counters, its files and what is alive in the queues.

1. Tried too often: it needs a person.
2. Its coordinator, or a job of its stage, is still queued or running: leave it alone.
3. Jobs have not ended, or none has succeeded: send those again that have not succeeded. For OCR the files
   say which, whatever the counters say; a stage of one job has only that one; else the application says.
4. Otherwise the stage has ended, and the coordinator is missing: claim it (again) and send it.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pipestate.errors import ConfigError
from pipestate.pipeline.queues.config import SECTION, Place, Wiring
from pipestate.pipeline.queues.rq.dispatch import Alive, Parcel, missing_by_hook
from pipestate.pipeline.reconcile.stuck import Counters, StuckSite
from pipestate.pipeline.storage import Documents, Storage
from pipestate.plural import many

# In a file name that is not UTF-8: no database takes them, so no job can have such a key.
SURROGATES = re.compile(r"[\ud800-\udfff]")


class Action(StrEnum):
    COORDINATOR = "coordinator"
    JOBS = "jobs"
    WAIT = "wait"
    PERSON = "person"


@dataclass(frozen=True, slots=True)
class Step:
    """What is planned for a site.

    `counters` are the new ones of a stage that is counted anew. Keys in `succeeded` are counted there
    already; other job keys are forgotten when jobs are sent, so that what is sent again counts.
    """

    site: StuckSite
    action: Action
    reason: str
    parcels: tuple[Parcel, ...] = ()
    counters: Mapping[str, Counters] = field(default_factory=dict)
    succeeded: frozenset[str] = frozenset()

    @property
    def recovers(self) -> bool:
        return self.action in (Action.COORDINATOR, Action.JOBS)


@dataclass(frozen=True, slots=True)
class World:
    """What a plan looks at beside the site."""

    wiring: Wiring
    alive: Alive
    storage: Storage | None
    max_attempts: int
    by_hand: bool = False

    def documents(self, site: StuckSite) -> Documents:
        if self.storage is None:
            raise ConfigError(
                f"{site.subdomain} is stuck in ocr, and only its files say what is missing: "
                "give --storage-dir or set STORAGE_DIR"
            )
        return self.storage.documents(site.subdomain)


def plan_site(site: StuckSite, world: World) -> Step:
    if site.attempts >= world.max_attempts:
        return Step(site, Action.PERSON, _tried(site))
    busy = _busy(site, world)
    if busy is not None:
        return Step(site, Action.WAIT, busy)
    undone = [stage for stage in site.step if _undone(site.counters[stage])]
    if undone == ["ocr"]:
        return _ocr(site, world, world.documents(site))
    if undone:
        return _jobs(site, world, undone)
    return _coordinator(site, world, _ended(site), {})


def _undone(counters: Counters) -> bool:
    return not counters.ended or counters.in_vain


def _tried(site: StuckSite) -> str:
    error = f"; its last error: {site.last_error}" if site.last_error else ""
    return f"tried {site.attempts} times, it needs a person{error}"


def _busy(site: StuckSite, world: World) -> str | None:
    coordinators = [world.wiring.coordinator(stage) for stage in site.step]
    if any(world.alive.of(site.subdomain, place) for place in coordinators):
        return "its coordinator is queued or running"
    for stage in site.step:
        count = world.alive.of(site.subdomain, world.wiring.jobs.get(stage))
        if count:
            return f"{many(count, f'{stage} job')} queued or running"
    return None


def _ocr(site: StuckSite, world: World, documents: Documents) -> Step:
    """Files, not counters: a job that was killed has counted nothing, whatever it has written."""
    known, there = site.counters["ocr"].total, documents.total
    if there == 0:
        return Step(site, Action.PERSON, f"none of its {known} documents is in the storage")
    if there < known and not world.by_hand:  # half a disk must not lower the total
        found = f"only {there} of its {known} documents are in the storage"
        return Step(site, Action.PERSON, f"{found}: if that is right, reconcile --site {site.subdomain}")
    done = len(documents.texts)
    now = {"ocr": Counters(documents.total, done, 0)}
    succeeded = _keys(documents)
    if not documents.missing:
        return _coordinator(site, world, f"all {many(done, 'document')} have text", now, succeeded)
    keywords = [{"pdf_path": documents.pdfs[document]} for document in documents.missing]
    reason = f"{done} of {many(documents.total, 'document')} have text"
    return _send_jobs(site, world, {"ocr": keywords}, reason, now, succeeded)


def _keys(documents: Documents) -> frozenset[str]:
    """What the jobs of the documents with text may be called: the document, or the path of its PDF."""
    paths = {path for document, path in documents.pdfs.items() if document in documents.texts}
    return frozenset(key for key in documents.texts | paths if not SURROGATES.search(key))


def _jobs(site: StuckSite, world: World, undone: list[str]) -> Step:
    keywords: dict[str, list[dict[str, Any]]] = {}
    for stage in undone:
        hooked = missing_by_hook(world.wiring, site.subdomain, stage)
        total = site.counters[stage].total
        if hooked is None and total > 1:
            return Step(
                site,
                Action.PERSON,
                f"{stage} has {total} jobs and nothing says which are missing: name a function, "
                f"missing = ..., under [{SECTION}] in alembic.ini",
            )
        keywords[stage] = [{}] if hooked is None else hooked
    now = {stage: _counted_anew(site.counters[stage], len(jobs)) for stage, jobs in keywords.items()}
    if not any(keywords.values()):
        return _coordinator(site, world, "every job has succeeded", now)
    reason = ", ".join(_told(stage, site.counters[stage]) for stage in undone)
    return _send_jobs(site, world, keywords, reason, now, frozenset())


def _counted_anew(counters: Counters, missing: int) -> Counters:
    """What is not missing has succeeded, whether it was counted or killed before that."""
    total = max(counters.total, counters.completed + missing)
    return Counters(total, total - missing, 0)


def _send_jobs(
    site: StuckSite,
    world: World,
    keywords: Mapping[str, list[dict[str, Any]]],
    reason: str,
    now: Mapping[str, Counters],
    succeeded: frozenset[str],
) -> Step:
    for stage in keywords:
        refused = _cannot_send(site, world.wiring.jobs.get(stage), f"{stage}_job")
        if refused is not None:
            return refused
    parcels = tuple(
        _parcel(world.wiring.jobs[stage], site, extra) for stage, jobs in keywords.items() for extra in jobs
    )
    return Step(site, Action.JOBS, reason, parcels, now, succeeded)


def _coordinator(
    site: StuckSite,
    world: World,
    reason: str,
    now: Mapping[str, Counters],
    succeeded: frozenset[str] = frozenset(),
) -> Step:
    place = world.wiring.coordinator(site.stage)
    refused = _cannot_send(site, place, f"{site.stage}_coordinator")
    if refused is not None or place is None:
        return refused or Step(site, Action.PERSON, reason)
    lost = "its coordinator was lost" if site.claimed else "no coordinator was claimed"
    return Step(site, Action.COORDINATOR, f"{reason}, {lost}", (_parcel(place, site, {}),), now, succeeded)


def _cannot_send(site: StuckSite, place: Place | None, key: str) -> Step | None:
    if place is not None and place.importable:
        return None
    return Step(
        site, Action.PERSON, f"nothing says what to enqueue: write {key} under [{SECTION}] in alembic.ini"
    )


def _parcel(place: Place, site: StuckSite, extra: Mapping[str, Any]) -> Parcel:
    known = {"subdomain": site.subdomain, "run_id": f"{site.subdomain}_recovered"}
    return Parcel(place, {**known, **extra})


def _ended(site: StuckSite) -> str:
    return ", ".join(_told(stage, site.counters[stage]) for stage in site.step)


def _told(stage: str, counters: Counters) -> str:
    failed = f", {counters.failed} failed" if counters.failed else ""
    return f"{stage} {counters.completed}/{counters.total}{failed}"
