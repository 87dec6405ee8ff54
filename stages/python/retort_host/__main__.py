"""Hosts a worker of Retort in this Python: loads the worker's library, and creates and runs networks for it.

retort starts this program: python3 retort_host/__main__.py --library libretort_worker.so --torch torch==2.11.* --events-fd 3
"""

import ctypes
import faulthandler
import gc
import json
import os
import sys

# This file is run by its path, so Python would search this folder for modules; search its parent folder instead.
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[0] = os.path.dirname(HERE)
from retort_host.entries import Entries
from retort_host.failures import advice_for, flush_output, last_line, print_traceback, say_where_backward_fails
from retort_host.measures import Measures
from retort_host.networks import Networks
from retort_host.packages import packages
from retort_host.refusal import Refusal, UntrustedCode
from retort_host.steps import Steps
from retort_host.tokenizers import Tokenizers

NO_PYTHON_FOR_IT = 69


def stop(message):
    print(f"retort_host: error: {message}", file=sys.stderr, flush=True)
    os._exit(NO_PYTHON_FOR_IT)


def options():
    words = sys.argv[1:]
    return dict(zip(words[::2], words[1::2]))


def reply_to(torch, error):
    """Returns the reply to the worker for an exception."""
    said = str(error) if isinstance(error, Refusal) else last_line(error)
    return {
        "error": said.encode("utf-8", "replace").decode(),
        "advice": advice_for(error),
        "out_of_memory": isinstance(error, (MemoryError, torch.OutOfMemoryError)),
        "untrusted": isinstance(error, UntrustedCode),
        "raised": not isinstance(error, Refusal),
    }


def main():
    chosen = options()
    try:
        import torch
    except ImportError as error:
        stop(f"{sys.executable} has no torch ({error}): install it there with pip install {chosen['--torch']}, or set "
             "python: to an interpreter that has it")
    try:
        library = ctypes.CDLL(chosen["--library"])
    except OSError as error:
        stop(f"torch {torch.__version__} in {sys.executable} does not work with this worker ({error}): "
             f"install {chosen['--torch']}")
    library.retort_worker_torch.restype = ctypes.c_char_p
    built = library.retort_worker_torch().decode()
    if torch.__version__.split("+")[0] != built:
        stop(f"{sys.executable} has torch {torch.__version__}, but this worker needs {built}: pip install torch=={built}")

    faulthandler.enable()  # print where Python was if compiled code crashes
    say_where_backward_fails(torch)
    entries = Entries()
    networks = Networks(torch, entries)
    steps = Steps(torch, entries, networks)
    tokenizers = Tokenizers(torch, entries)

    def reader(request):
        return {"interpreter": sys.executable, "script": os.path.join(HERE, "reader.py"), "allowed": entries.allowed()}

    actions = {"allow": entries.allow, "packages": packages,
               "build": networks.build, "train": networks.train, "forward": networks.forward, "probe": networks.probe,
               "pixels": networks.pixels,
               "set_up_cuda": networks.set_up_cuda, "run": networks.run, "forget": networks.forget, "release": networks.release,
               "make_step": steps.make, "release_step": steps.release, "encode": steps.encode, "loss": steps.loss,
               "score": steps.score,
               "make_tokenizer": tokenizers.make, "release_tokenizer": tokenizers.release, "tokenize": tokenizers.tokenize,
               "measure": Measures(torch, entries).measure, "reader": reader}
    process = os.getpid()

    def answer(text):
        try:
            request = json.loads(text)
            reply, failed = actions[request["do"]](request), 0
        except BaseException as error:  # including SystemExit and KeyboardInterrupt from the user's code
            if not isinstance(error, Refusal):
                print_traceback(error)
            reply, failed = reply_to(torch, error), 1
        if os.getpid() != process:
            os._exit(1)  # a process forked by the user's code must not become a second worker
        refused, entries.refused = entries.refused, None
        if refused:  # even if the user's code continued without the module
            reply, failed = reply_to(torch, refused), 1
        if failed:
            gc.collect()  # free the tensors in the frames of the exception
        library.retort_worker_reply(json.dumps(reply).encode())
        return failed

    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p)(answer)
    exit_code = library.retort_worker_serve(int(chosen["--events-fd"]), callback)
    flush_output()
    # Skip Python's own cleanup, since the network's tensors came from the worker's allocator.
    os._exit(exit_code)


if __name__ == "__main__":
    main()
