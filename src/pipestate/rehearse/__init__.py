"""Run the pending revisions on a clone, and say what production will feel.

    clone (refusals, tables) ─► child (migrates, tells) ─┐
                               watch (probes, samples) ──┴─► attribute ─► patient ─► production ─► judge ─► Rehearsal

The child is a process of its own, in which the project's env.py runs; the parent only watches. A second run, on a copy
of the clone or on the way up again, meets patient readers. Production is only asked.
"""
