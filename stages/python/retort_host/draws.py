"""Finds random draws that no record can repeat."""

import contextlib
import random
import sys

from retort_host.refusal import Refusal

ADVICE = "draw in modules of type torch.nn.Dropout or DropPath of the network, or leave the draws out"


@contextlib.contextmanager
def no_draws(torch, device, who):
    """Refuses what draws from torch's generators. In a dry run, whose device is meta, also what draws from Python's or
    NumPy's, whose states take longer to compare."""

    def states():
        found = [torch.get_rng_state()]
        if device.type == "cuda":
            found.append(torch.cuda.get_rng_state(device))
        return found

    def slow_states():
        numpy = sys.modules.get("numpy")
        found = [random.getstate()]
        if numpy is not None:
            name, numbers, *place = numpy.random.get_state()
            found.append((name, numbers.tobytes(), *place))
        return found

    is_dry = device.type == "meta"
    before, slow = states(), slow_states() if is_dry else []
    yield
    # numpy may have been imported meanwhile; its state is then not compared.
    is_same = all(torch.equal(one, other) for one, other in zip(before, states()))
    if is_dry:
        is_same = is_same and all(one == other for one, other in zip(slow, slow_states()))
    if not is_same:
        raise Refusal(f"{who} draws random numbers that no record can repeat", ADVICE)
