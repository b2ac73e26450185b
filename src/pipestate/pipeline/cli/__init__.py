"""Commands of the shipped application."""
