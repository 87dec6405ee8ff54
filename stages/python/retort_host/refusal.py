"""Errors that the host reports about the user's code in its own words."""


class Refusal(Exception):
    """An error with advice on what to do about it. It needs no traceback."""

    def __init__(self, message, advice):
        super().__init__(message)
        self.retort_advice = advice


class UntrustedCode(Refusal):
    """Raised for a user's Python file that may not run. It is not an ImportError, so code that continues without a
    missing module does not silently continue without this file."""
