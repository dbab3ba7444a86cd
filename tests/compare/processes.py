"""Which processes of a comparison are alive."""

from pathlib import Path


def children_in(folder):
    """The processes that have a file below `folder` open; on a system without /proc none is seen."""
    found = []
    for process in Path("/proc").glob("[0-9]*/fd"):
        try:
            opened = [link.readlink() for link in process.iterdir()]
        except OSError:  # it has ended, or is another user's
            continue
        if any(path.is_relative_to(folder.absolute()) for path in opened):
            found.append(int(process.parent.name))
    return found
