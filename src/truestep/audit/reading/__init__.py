"""The text of a script as a tree: where a line stands, what its values are made of, and what becomes of them."""
