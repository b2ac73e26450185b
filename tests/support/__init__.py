"""Helpers of the tests: servers, projects, programs, and what is put into a database."""
