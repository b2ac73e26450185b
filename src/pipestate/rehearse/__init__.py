"""Run the pending revisions on a clone, and report locks, waits, and writes that would fail.

    clone (refusals, tables) ─► child (migrates, reports) ─┐
                               watch (probes, samples) ────┴─► attribute ─► impact ─► Rehearsal

The child is a separate process that runs the project's env.py; the parent only watches. `writes` tries to write
a row of each table before and after. `blocking_reader` runs the upgrade a second time, on a copy of the clone or
as the second upgrade. Production is only read.
"""
