"""Job queues: their depths, the jobs that block the pipeline, clearing and restoring.

`port.py` defines the queue protocol, `rq/` implements it for RQ, and `config.py` selects the backend.
"""
