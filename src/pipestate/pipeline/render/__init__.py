"""The shipped application's results, as people and programs read them."""
