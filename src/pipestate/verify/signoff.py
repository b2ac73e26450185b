"""A sign-off as a check: SQL on the ledger, so that gates need to know only SQL."""

from datetime import timedelta

from pipestate.runbook.model import Check, Evidence, SignOff
from pipestate.runbook.require import parse_requirement
from pipestate.verify.expect import Judgement
from pipestate.verify.verdict import Outcome

AGE = {
    "postgresql": "extract(epoch FROM now() - attested_at)",
    "sqlite": "(julianday('now') - julianday(attested_at)) * 86400",
}


def signoff_check(signoff: SignOff, dialect: str) -> Check:
    """Is there a word on it that is young enough? The id is one of `[a-z0-9-]`: safe in SQL."""
    seconds = int(signoff.valid_for.total_seconds())
    age = AGE[dialect]
    return Check(
        id=signoff.id,
        line=signoff.line,
        sql=f"SELECT count(*) AS valid FROM pipestate_attestation WHERE name = '{signoff.id}' AND {age} < {seconds}",
        require=parse_requirement("valid >= 1"),
        evidence=(
            Evidence(
                (signoff.id,),
                signoff.line,
                "SELECT attested_by, attested_at, note FROM pipestate_attestation "
                f"WHERE name = '{signoff.id}' ORDER BY attested_at DESC LIMIT 3",
            ),
        ),
    )


def explain_signoff(signoff: SignOff, judgement: Judgement) -> Judgement:
    """In words: what is missing, and the command that records it."""
    limit = written(signoff.valid_for)
    if judgement.outcome is Outcome.PASSED:
        return Judgement(judgement.outcome, judgement.observed, f"signed off within {limit}")
    if judgement.outcome is Outcome.FAILED:
        said = f"not signed off within {limit}: pipestate attest {signoff.id} --by YOU"
        return Judgement(judgement.outcome, judgement.observed, said)
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
