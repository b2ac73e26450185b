"""The ledger: what was verified, signed off, observed and created, in a schema of its own.

`tables` defines it once for both engines, `install` creates it or brings it up to date, `state` says
whether a database has it, and `record` is the only writer of runs and their results.
"""
