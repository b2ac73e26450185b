"""Send sites on their way: `python -m clerk.start SITE ...`; a site that is not there yet is added."""

import sys

from sqlalchemy import text

from clerk import workers

ADD = text("INSERT INTO sites (subdomain) VALUES (:site) ON CONFLICT (subdomain) DO NOTHING")

if __name__ == "__main__":
    for site in sys.argv[1:]:
        with workers.database().begin() as conn:
            conn.execute(ADD, {"site": site})
        workers.start(site)
        print(f"{site} is on its way")
