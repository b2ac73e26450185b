"""The shipped application's commands."""
