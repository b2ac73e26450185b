"""The ledger: what was verified, signed off and observed."""
