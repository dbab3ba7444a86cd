"""Labs on skipped updates, and on what a tick of a schedule means."""
