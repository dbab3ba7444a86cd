"""Files that are written whole or not at all, folders that belong to one process, and values that are hashed in one form."""
