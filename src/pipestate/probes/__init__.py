"""The probes that come with pipestate: a queue of SQS, JSON over HTTP, a command that prints a number."""
