"""Number formats: the table and exact reference rounding."""
