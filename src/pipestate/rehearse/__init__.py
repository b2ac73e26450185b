"""Run the pending revisions on a clone, and say what production will feel.

    clone (refusals, tables) ─► child (migrates, tells) ─┐
                               watch (probes, samples) ──┴─► attribute ─► judge ─► Rehearsal

The child is a process of its own, in which the project's env.py runs; the parent only watches.
"""
