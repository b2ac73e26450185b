"""Runbooks: parse Markdown into frozen values, without a database."""
