"""Job queues: their depths, the jobs that block the pipeline, and clearing them.

`port.py` defines the queue protocol, `rq/` implements it for RQ, and `config.py` selects the backend.
"""
