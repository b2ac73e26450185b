"""The soak of a phase: `soak: 7d` in the front matter becomes a check on the records of another phase."""

from dataclasses import dataclass
from datetime import timedelta

from pipestate.runbook.criterion import parse_requirement
from pipestate.runbook.model import Advice, Check, Evidence

SOAK = "soak"  # the id of the check
GAP = timedelta(hours=48)


@dataclass(frozen=True, slots=True)
class SoakRule:
    """How long the phase `of` must have been recorded open, without a longer gap; None: the phase before."""

    line: int
    length: timedelta
    of: str | None = None
    gap: timedelta = GAP


def soak_check(rule: SoakRule, of: str, *, runbook: str, path: str, heading: int) -> Check:
    """Write the check: the streak may begin anew after a gap, so the row without one counts first.

    Its advice points at the heading of the phase, in line `heading`.
    """
    days, gap = rule.length / timedelta(days=1), rule.gap / timedelta(hours=1)
    streak = f"SELECT * FROM pipestate.soak_since WHERE runbook = '{runbook}' AND phase = '{of}'"
    sql = f"{streak}\nORDER BY longest_gap_hours <= {gap:g} DESC, days_open DESC LIMIT 1"
    require = f"days_open >= {days:g} and longest_gap_hours <= {gap:g} and hours_since_last_record <= {gap:g}"
    place = f"{path}:{rule.line}"
    advice = (
        f"Run `pipestate verify --record` every day. The gate needs {days:g} days in which {of} was recorded "
        f"open, without a gap of more than {gap:g} hours. `pipestate status` shows when that is."
    )
    evidence = Evidence((SOAK,), rule.line, _evidence(streak, of, runbook, rule.gap), block=place)
    return Check(
        SOAK,
        rule.line,
        sql,
        parse_requirement(require),
        evidence=(evidence,),
        block=place,
        advice=Advice(advice, f"{path}:{heading}"),
    )


def _evidence(streak: str, of: str, runbook: str, gap: timedelta) -> str:
    """Write the query for what ended or shortened the streak: a gap, closed gates, or its beginning."""
    hours = gap / timedelta(hours=1)
    return f"""WITH streak AS (
  {streak}
), gap AS (
  SELECT * FROM streak WHERE longest_gap_hours > {hours:g} ORDER BY records LIMIT 1
), beginning AS (
  SELECT * FROM streak ORDER BY records DESC LIMIT 1
)
SELECT 'no record for more than {hours:g} hours after it' AS fault, open_since AS recorded_at,
       NULL AS actor, NULL AS check_id, NULL AS message
FROM gap
UNION ALL
SELECT 'the gate was closed', r.recorded_at, r.actor, x.check_id, x.message
FROM pipestate.run r
LEFT JOIN pipestate.result x
  ON x.run_id = r.id AND x.level = 'block' AND x.outcome IN ('failed', 'errored')
WHERE r.event = 'verify' AND r.runbook = '{runbook}' AND r.phase = '{of}'
  AND r.gate <> 'open' AND NOT EXISTS (SELECT 1 FROM gap)
UNION ALL
SELECT 'the records begin here', open_since, NULL, NULL, NULL FROM beginning
WHERE last_closed_at IS NULL AND NOT EXISTS (SELECT 1 FROM gap)
ORDER BY recorded_at DESC LIMIT 10"""
