"""Many databases of one chain: the same questions to each, and what differs between them.

list → tenants → survey (threads) → answers → tally: groups of those that are alike, and the rest by name
"""
