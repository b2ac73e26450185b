"""The whole story of the shipped migration, on servers of its own."""
