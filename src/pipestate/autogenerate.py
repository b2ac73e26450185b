"""Autogenerate writes contracts: dropped tables and columns wait for a gate, and can be restored."""

from pipestate.migration.autogenerate import contracts

__all__ = ["contracts"]
