"""Errors, text, paths and progress, used by all other packages. Imports no other package of pipestate."""
