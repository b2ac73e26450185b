"""An application in miniature, on pipestate's counters and RQ: see workers.py."""
