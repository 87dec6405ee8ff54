"""What the host finds wrong with the user's code, in its own words."""


class Refusal(Exception):
    """Says what is wrong, and what to do about it; needs no traceback."""

    def __init__(self, message, advice):
        super().__init__(message)
        self.retort_advice = advice


class UntrustedCode(Refusal):
    """A Python file of the user that may not run. Not an ImportError: code that does without a module if there is none is
    not to do without this one unseen."""
