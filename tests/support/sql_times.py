"""Times in a test's SQL, in the engine's own words: `<3 hours ago>`."""

import re

from support.servers import Database

_AGO = re.compile(r"<(?P<text>text )?(?P<number>[^<>]+?) (?P<unit>minute|hour|day)s? ago>")


def run_timed(database: Database, *statements: str) -> None:
    database.run(*(timed(database, statement) for statement in statements))


def timed(database: Database, statement: str) -> str:
    """`<3 hours ago>`, where the number may be an expression; `<text 3 hours ago>` as text, as it was once kept."""

    def spelt(match: re.Match[str]) -> str:
        number, unit = match["number"], match["unit"]
        if database.is_sqlite:
            form = "%Y-%m-%dT%H:%M:%S" if match["text"] else "%Y-%m-%d %H:%M:%S"
            return f"strftime('{form}', 'now', -({number}) || ' {unit}s')"
        time = f"(now() - ({number}) * interval '1 {unit}')"
        return f"to_char({time} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS')" if match["text"] else time

    return _AGO.sub(spelt, statement)
