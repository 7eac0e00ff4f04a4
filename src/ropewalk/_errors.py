"""The errors that ropewalk raises on purpose."""


class RopewalkError(ValueError):
    """Input that cannot be used: what was given, what is allowed, and what to do."""


class VerificationError(RopewalkError):
    """A change to a model or a checkpoint did not take effect as planned."""
