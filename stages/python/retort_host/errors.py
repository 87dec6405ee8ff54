"""Says what the user's code raised, and where."""

import os
import sys
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))


def last_line(error):
    """"TypeError: …", the first line of what it says, and where in the user's code it was raised."""
    lines = str(error).strip().splitlines()
    said = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.dirname(frame.filename) != HERE]
    return f"{said} ({frames[-1].filename}:{frames[-1].lineno})" if frames else said


def name_errors_of_backward(torch):
    """What an autograd.Function raises in its backward pass, C++ would name without its type and place."""
    of_python = torch.autograd.function.BackwardCFunction
    plain = of_python.apply

    def apply(self, *gradients):
        try:
            return plain(self, *gradients)
        except torch.OutOfMemoryError:
            raise
        except BaseException as error:
            traceback.print_exc()
            sys.stderr.flush()
            raise RuntimeError(last_line(error)) from error

    of_python.apply = apply
