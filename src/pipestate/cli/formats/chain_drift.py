"""`pipestate drift --against chain`: lines for people, data for scripts."""

from collections.abc import Iterator
from typing import Any

from pipestate.cli.formats.json import as_plain
from pipestate.core.text import many
from pipestate.rehearse.against_chain import ChainDrift


def chain_drift_as_lines(drift: ChainDrift) -> Iterator[str]:
    """Answer in the first line; then name each object that is missing, extra or different."""
    built = f"what the chain builds up to revision {drift.revision}"
    count = len(drift.differences)
    if count:
        yield f"drift: {many(count, 'object')} {'differs' if count == 1 else 'differ'} from {built}"
    else:
        yield f"no drift: the schema is {built}"
    for each in drift.differences:
        yield f"  {each}"


def chain_drift_as_data(drift: ChainDrift) -> dict[str, Any]:
    """Return the keys of `drift --json`; those of the record are null."""
    differences = as_plain(drift.differences)
    record = {"recorded_at": None, "incomparable": None}
    return {"schema_version": 1, "revision": drift.revision, **record, "differences": differences}
