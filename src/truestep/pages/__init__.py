"""Records to HTML."""
