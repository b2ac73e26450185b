"""Commands on many databases of one chain: ask each the same questions and group equal answers.

list → tenants → answers (in threads) → tally: groups of equal databases, and the rest by name
"""
