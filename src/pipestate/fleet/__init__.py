"""Commands on many databases of one project: evaluate the same phases on each and group equal answers.

list → tenants → answers (in threads) → tally: groups of equal databases, and the rest by name
"""
