"""Says what went wrong in the user's code."""

import os
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))


def last_line(error):
    """"TypeError: …", and where in the user's code it was raised."""
    said = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()[-1]
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if os.path.dirname(frame.filename) != HERE]
    return f"{said} ({frames[-1].filename}:{frames[-1].lineno})" if frames else said
