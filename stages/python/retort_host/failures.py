"""Describes in one line what failed in the user's code, and where."""

import contextlib
import os
import sys
import traceback

from retort_host.entries import advice_on_module

HERE = os.path.dirname(os.path.abspath(__file__))
LONGEST = 400
OUT_OF_MEMORY = "retort_host: out of memory: "
are_printed = True  # False inside without_tracebacks()


def last_line(error):
    """Returns "TypeError: … (my_net.py:12)", with the last line outside torch and this package that was running, or the one that
    Python could not parse."""
    said = traceback.format_exception_only(type(error), error)[-1].strip().splitlines()[0][:LONGEST]
    if isinstance(error, SyntaxError) and error.filename:
        return f"{said} ({error.filename}:{error.lineno})"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.dirname(frame.filename) != HERE]
    torch = sys.modules.get("torch")
    others = (os.path.dirname(torch.__file__) + os.sep, "<") if torch else ("<",)
    own = [frame for frame in frames if not frame.filename.startswith(others)] or frames
    return f"{said} ({own[-1].filename}:{own[-1].lineno})" if own else said


def advice_for(error):
    """Returns advice about the error; empty if there is none."""
    if isinstance(error, ModuleNotFoundError) and error.name and not hasattr(error, "retort_advice"):
        return ("if it is your own file, put it into the folder of the code or of the recipe; otherwise "
                + advice_on_module(error.name))
    return str(getattr(error, "retort_advice", ""))


def flush_output():
    """Flushes standard output and standard error, which the user's code may have closed or replaced."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


@contextlib.contextmanager
def without_tracebacks():
    """Prints no tracebacks of the code inside, which is tried and may fail."""
    global are_printed
    before, are_printed = are_printed, False
    try:
        yield
    finally:
        are_printed = before


def print_traceback(error):
    """Prints the traceback to standard error, without the first frames, which belong to this package."""
    if not are_printed:
        return
    calls = error.__traceback__
    while calls and os.path.dirname(calls.tb_frame.f_code.co_filename) == HERE:
        calls = calls.tb_next
    with contextlib.suppress(Exception):
        traceback.print_exception(type(error), error, calls or error.__traceback__)
    flush_output()


def say_where_backward_fails(torch):
    """Adds the code location to exceptions in the backward pass of the user's torch.autograd.Function, because only the message of
    an exception reaches the worker. An out-of-memory exception is released before it is reported, together with all tensors
    in its frames, because the step is then computed again."""
    node = torch.autograd.function.BackwardCFunction
    apply = node.apply

    def apply_or_say(self, *gradients):
        try:
            return apply(self, *gradients)
        except (torch.OutOfMemoryError, MemoryError) as error:
            said = str(error)
        except BaseException as error:
            print_traceback(error)
            raise RuntimeError(last_line(error)) from error
        raise RuntimeError(OUT_OF_MEMORY + said)  # the worker recognizes this prefix

    node.apply = apply_or_say
