"""The engines that pipestate works with: what each of them is and does, in one module each.

`choice` picks what is registered under the name of an engine. `engine` has what all packages need of one. A package
whose engines differ by more has an `engine.py`, a `postgresql` and a `sqlite` of its own.
"""
