"""Labs on numbers and the formats that they are kept in."""
