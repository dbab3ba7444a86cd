"""Where the time of an update goes, stage by stage, and a trace of one: what `truestep.profile` opens.

A package cannot also be the function, hence the room's own name.
"""
