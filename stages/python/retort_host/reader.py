"""Reads samples of the user's datasets in a separate process, so that samples are read while the network computes.

The worker starts this program: python3 retort_host/reader.py, with requests on descriptor 3, each a line of JSON, and replies on
descriptor 4. Descriptor 5 is a pipe that closes when the worker ends, however it ends.
"""

import fcntl
import json
import os
import signal
import struct
import sys

# This file is run by its path, so Python would search this folder for modules; search its parent folder instead.
sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
try:
    import numpy  # noqa: F401: imported before the user's code, so that its generator can be seeded
except ImportError:
    pass
from retort_host.entries import Entries
from retort_host.failures import flush_output, last_line, print_traceback
from retort_host.refusal import Refusal
from retort_host.samples import BadSample, DataSets

REQUESTS, REPLIES, WORKER = 3, 4, 5


def die_with_worker():
    """Makes the kernel kill this process when the other end of the pipe closes."""
    fcntl.fcntl(WORKER, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(WORKER, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(WORKER, fcntl.F_SETFL, fcntl.fcntl(WORKER, fcntl.F_GETFL) | os.O_ASYNC)


def main():
    die_with_worker()
    for descriptor in (REQUESTS, REPLIES, WORKER):
        os.set_inheritable(descriptor, False)
    own = os.getpid()
    requests, replies = os.fdopen(REQUESTS, "rb"), os.fdopen(REPLIES, "wb")
    entries = Entries()
    datasets = DataSets(entries)

    def open_set(request):
        entries.allow(request["allowed"])
        return [json.dumps(datasets.open(request)).encode()]

    actions = {"open": open_set, "sample": datasets.sample}
    for line in requests:
        failed = False
        try:
            request = json.loads(line)
            pieces = actions[request["do"]](request)
        except BadSample as error:
            failed, pieces = True, [json.dumps({"kind": error.kind, "error": str(error), "help": error.help}).encode()]
        except Refusal as error:
            failed, pieces = True, [json.dumps({"kind": "data", "error": str(error), "help": error.retort_advice}).encode()]
        except BaseException as error:  # including SystemExit and KeyboardInterrupt from the user's code
            print_traceback(error)
            failed, pieces = True, [json.dumps({"kind": "raised", "error": last_line(error)}).encode()]
        refused, entries.refused = entries.refused, None
        if refused:  # even if the user's code continued without the module
            failed, pieces = True, [json.dumps({"kind": "untrusted", "error": str(refused), "help": refused.retort_advice}).encode()]
        if os.getpid() != own:
            os._exit(0)  # a child forked by the user's code has returned here
        flush_output()
        replies.write(struct.pack("<BQ", failed, sum(len(piece) for piece in pieces)))
        for piece in pieces:
            replies.write(piece)
        replies.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
