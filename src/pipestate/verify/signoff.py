"""A sign-off as a check: SQL on the ledger, so that gates need to know only SQL."""

from datetime import timedelta

from pipestate.runbook.model import Check, Evidence, SignOff
from pipestate.runbook.require import parse_requirement
from pipestate.verify.expect import Judgement
from pipestate.verify.verdict import Outcome

VIEW = {"postgresql": "pipestate.sign_off", "sqlite": "pipestate_sign_off"}


def signoff_check(signoff: SignOff, dialect: str, *, runbook: str, phase: str) -> Check:
    """Make the check: how many different people have signed, recently enough, for this phase?

    The view gives no age to a time that lies ahead, so that such a word never counts. Ids and names are
    of `[a-z0-9-]`: safe in SQL.
    """
    seconds = int(signoff.valid_for.total_seconds())
    words = (
        f"FROM {VIEW[dialect]} WHERE runbook = '{runbook}' AND phase = '{phase}' AND name = '{signoff.id}'"
    )
    return Check(
        id=signoff.id,
        line=signoff.line,
        sql=f"SELECT count(DISTINCT lower(trim(person))) AS people {words} AND age_seconds < {seconds}",
        require=parse_requirement(f"people >= {signoff.people}"),
        evidence=(
            Evidence(
                (signoff.id,),
                signoff.line,
                f"SELECT person, signed_at, note {words} ORDER BY signed_at DESC LIMIT 3",
            ),
        ),
    )


def explain_signoff(signoff: SignOff, judgement: Judgement, *, runbook: str, phase: str) -> Judgement:
    """Say in words what is missing, with the command that records it."""
    within = f"within {written(signoff.valid_for)}"
    if judgement.outcome is Outcome.PASSED:
        by = f" by {signoff.people} people" if signoff.people > 1 else ""
        return Judgement(judgement.outcome, judgement.observed, f"signed off{by} {within}")
    if judgement.outcome is Outcome.FAILED:
        so_far = (
            f" by {judgement.observed.get('people')} of {signoff.people} people" if signoff.people > 1 else ""
        )
        how = f"pipestate attest {runbook}/{phase}/{signoff.id} --by YOU"
        missing = f"signed off{so_far}" if so_far else "not signed off"
        return Judgement(judgement.outcome, judgement.observed, f"{missing} {within}: {how}")
    return judgement


def written(duration: timedelta) -> str:
    """
    >>> written(timedelta(hours=24)), written(timedelta(days=7)), written(timedelta(minutes=30))
    ('24h', '7d', '30m')
    """
    minutes = int(duration.total_seconds() // 60)
    if minutes % (24 * 60) == 0 and minutes > 24 * 60:
        return f"{minutes // (24 * 60)}d"
    return f"{minutes // 60}h" if minutes % 60 == 0 else f"{minutes}m"
