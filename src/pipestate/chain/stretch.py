"""A stretch of the chain: what can run at once, revisions without a gate, or one that asks a gate, alone."""

from collections.abc import Collection

from pipestate.chain.graph import Chain, Revision


def next_stretch(
    chain: Chain,
    applied: Collection[str],
    wanted: Collection[str],
    gated: Collection[str],
    closed: Collection[str],
) -> list[Revision]:
    """Choose what runs next: all that no gate holds back, else the first revision that asks one."""
    needed = chain.ancestors(wanted)
    behind = set(closed)
    free: list[Revision] = []
    asking: list[Revision] = []
    for revision in chain:
        if revision.id in applied or revision.id not in needed:
            continue
        if revision.id in behind or not behind.isdisjoint(revision.needs):
            behind.add(revision.id)
        elif revision.id in gated:
            behind.add(revision.id)
            asking.append(revision)
        else:
            free.append(revision)
    return free or asking[:1]


def ends(chain: Chain, stretch: Collection[Revision]) -> list[str]:
    """List the last revisions of a stretch: upgrading to each of them applies all of it."""
    ids = {revision.id for revision in stretch}
    below = {each for revision in stretch for each in chain.ancestors(revision.needs)}
    return [revision.id for revision in chain if revision.id in ids - below]
