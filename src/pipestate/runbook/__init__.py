"""Runbooks: Markdown in, frozen values out. No database here."""
