"""Results of the shipped application, for people and programs."""
