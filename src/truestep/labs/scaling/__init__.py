"""Labs on scaling, unscaling, and clipping between the two."""
