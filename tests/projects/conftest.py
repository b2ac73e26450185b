"""Miniature projects: material for tests, copied by their fixtures. pytest must not import what is in them."""

collect_ignore_glob = ["*"]
