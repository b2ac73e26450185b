"""The queues as RQ keeps them in Redis."""
