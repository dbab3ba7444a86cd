"""Records to HTML: one look, and a page for each kind of record. Pages read records and measure nothing."""
