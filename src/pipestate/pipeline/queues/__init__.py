"""The job queues: how full they are, what in them blocks the pipeline, how it is cleared and brought back.

`port.py` is what is asked of a queue, `rq/` is RQ behind it, `backend.py` chooses.
"""
