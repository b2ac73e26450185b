"""The ledger: a separate schema with verified runs, sign-offs, observations and created objects.

`tables` defines the ledger once for both engines. `install` creates or updates it. `state` reports whether a
database has a ledger. `record` is the only writer of runs and their results.
"""
