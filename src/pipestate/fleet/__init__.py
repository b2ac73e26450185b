"""Commands on many databases of one project: ask each the same questions and group equal answers.

list → tenants → answers (in threads) → tally: groups of equal databases, and the rest by name
"""
