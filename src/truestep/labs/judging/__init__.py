"""Labs on judging a precision: size and bias, quality and time."""
