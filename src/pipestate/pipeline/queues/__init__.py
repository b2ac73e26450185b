"""The job queues: what blocks the pipeline, and how it is sent on."""
