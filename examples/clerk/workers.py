"""Jobs and coordinators that take a site from fetch to completed.

Three rules keep the counters true, whatever dies in between:

1. A stage is started (`initialize_stage`, `advance_stage`) and committed before its jobs are enqueued.
2. A job ends with `finish_job`, whether it succeeded or not. With a key it counts once, however often it
   is delivered. The one that sees `claimed` enqueues the coordinator, after its commit.
3. A coordinator moves the site with `advance_stage`, which a second delivery cannot do again.

What is lost between two of these steps, `pipestate reconcile` finds and sends again: it calls the functions
that `[pipestate:queues]` in alembic.ini names, with `subdomain`, `run_id` and, for OCR, `pdf_path`.
"""

import os
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from redis import Redis
from rq import Queue
from sqlalchemy import Engine, create_engine

from pipestate.config import resolve_url
from pipestate.pipeline import (
    StageRunning,
    WrongTransition,
    advance_stage,
    finish_job,
    initialize_stage,
    open_storage,
)

QUEUES = ("fetch", "ocr", "compilation", "extraction", "deploy")


@cache
def database() -> Engine:
    return create_engine(resolve_url())


@cache
def redis() -> Redis:
    return Redis.from_url(os.environ["REDIS_URL"])


def enqueue(queue: str, function: Callable[..., None], **kwargs: Any) -> None:
    Queue(queue, connection=redis()).enqueue(function, **kwargs)


def start(subdomain: str, run_id: str = "first") -> None:
    """Send a site on its way."""
    with database().begin() as conn:
        initialize_stage(conn, subdomain, "fetch", 1)
    enqueue("fetch", fetch_site_job, subdomain=subdomain, run_id=run_id)


# Jobs


def fetch_site_job(subdomain: str, run_id: str) -> None:
    """Download the PDFs; in this example they lie in STORAGE_DIR already."""
    finish(subdomain, "fetch", run_id)


def ocr_page_job(subdomain: str, pdf_path: str, run_id: str) -> None:
    try:
        read_text(Path(pdf_path))
    except Exception as error:  # whatever it is, RQ's timeout among them: the job has ended
        finish(subdomain, "ocr", run_id, key=pdf_path, error=error)
    else:
        finish(subdomain, "ocr", run_id, key=pdf_path)


def read_text(pdf: Path) -> None:
    """Wait and copy, as the OCR of this example; what it writes appears at once and whole."""
    time.sleep(float(os.environ.get("OCR_SECONDS", "0")))
    meeting = pdf.parent
    text = meeting.parent.parent / "txt" / meeting.name / f"{pdf.stem}.txt"
    text.parent.mkdir(parents=True, exist_ok=True)
    unfinished = text.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(pdf.read_bytes())
    unfinished.rename(text)


def compile_db_job(subdomain: str, run_id: str) -> None:
    finish(subdomain, "compilation", run_id)


def extract_entities_job(subdomain: str, run_id: str) -> None:
    finish(subdomain, "extraction", run_id)


def deploy_job(subdomain: str, run_id: str) -> None:
    finish(subdomain, "deploy", run_id)


def finish(
    subdomain: str, stage: str, run_id: str, *, key: str = "only", error: BaseException | None = None
) -> None:
    with database().begin() as conn:
        outcome = finish_job(conn, subdomain, stage, error=error, job_key=key)
    if outcome.claimed:
        queue, coordinator = COORDINATORS[stage]
        enqueue(queue, coordinator, subdomain=subdomain, run_id=run_id)


# Coordinators


def fetch_complete_coordinator(subdomain: str, run_id: str) -> None:
    pdfs = open_storage(os.environ["STORAGE_DIR"]).documents(subdomain).pdfs
    if advance(subdomain, "ocr", {"ocr": len(pdfs)}):
        for path in pdfs.values():
            enqueue("ocr", ocr_page_job, subdomain=subdomain, pdf_path=path, run_id=run_id)
        if not pdfs:  # no job would end the stage: its coordinator is claimed for us
            enqueue("compilation", ocr_complete_coordinator, subdomain=subdomain, run_id=run_id)


def ocr_complete_coordinator(subdomain: str, run_id: str) -> None:
    documents = open_storage(os.environ["STORAGE_DIR"]).documents(subdomain)
    if documents.pdfs and not documents.texts:
        raise ValueError(f"{subdomain} has no text: reconciliation will send its jobs again")
    if advance(subdomain, "extraction", {"compilation": 1, "extraction": 1}):
        enqueue("compilation", compile_db_job, subdomain=subdomain, run_id=run_id)
        enqueue("extraction", extract_entities_job, subdomain=subdomain, run_id=run_id)


def extraction_complete_coordinator(subdomain: str, run_id: str) -> None:
    """Follow compilation and extraction, which run side by side."""
    if advance(subdomain, "deploy", {"deploy": 1}):
        enqueue("deploy", deploy_job, subdomain=subdomain, run_id=run_id)


def deploy_complete_coordinator(subdomain: str, run_id: str) -> None:
    del run_id
    advance(subdomain, "completed", {})


COORDINATORS: dict[str, tuple[str, Callable[..., None]]] = {
    "fetch": ("fetch", fetch_complete_coordinator),
    "ocr": ("compilation", ocr_complete_coordinator),
    "compilation": ("extraction", extraction_complete_coordinator),
    "extraction": ("extraction", extraction_complete_coordinator),
    "deploy": ("deploy", deploy_complete_coordinator),
}


def advance(subdomain: str, to: str, totals: dict[str, int]) -> bool:
    """Move the site; return False where another delivery of this coordinator has done so."""
    with database().begin() as conn:
        try:
            advance_stage(conn, subdomain, to=to, totals=totals)
        except (StageRunning, WrongTransition):
            return False
    return True
