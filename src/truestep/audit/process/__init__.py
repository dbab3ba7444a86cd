"""Running a stranger's script in its own interpreter, and bringing home what its processes saw."""

from truestep.audit.process.audited import Audited, audit

__all__ = ["Audited", "audit"]
