"""Finds random draws in the user's code outside the dropout layers of a network."""

import collections.abc
import contextlib
import os
import random
import sys
import traceback

from retort_host.failures import without_tracebacks
from retort_host.refusal import Refusal

HERE = os.path.dirname(os.path.abspath(__file__))
SAMPLES = 7  # a number that rarely divides the number of pieces of samples


def python_generators():
    """Returns the states of the generators of Python and numpy, which torch does not know about."""
    numpy = sys.modules.get("numpy")
    states = [random.getstate()]
    if numpy is not None:
        _, key, *rest = numpy.random.get_state(legacy=True)
        states.append((key.tobytes(), *rest))
    return states


def draws_of(torch, made, functions, shape, tokens, device):
    """Returns {"draws": what draws, and where; "dropout_calls": the calls of `functions` that the worker can compute;
    "own_modules": dropout layers with rows that are not samples, and blocks that do not map one tensor to one; "token_rows": see
    below}, or {} if the network does not accept inputs of this shape. Without a shape, common image shapes are tried. A network
    with towers gets `tokens` tokens per text; "token_rows" is then the number of tokens for which it has embeddings, or None if
    that was not observed."""
    network, was_training = made.network, made.network.training
    network.train(True)
    for path, module in network.named_modules():
        functions.track(module, lambda number, x, probability, path=path: made.watch.drop_of_call(path, number, x, probability))
    try:
        for one in [shape] if shape else likely_shapes(network):
            watch = watch_of(torch, made.weights)
            made.watch, before = watch, python_generators()
            try:
                with watch, torch.random.fork_rng(devices=[]):
                    images = torch.zeros((SAMPLES, *one), device=device)
                    if made.towers:
                        outputs = [made.towers["image"](images)]
                        if "class_head" in made.towers:
                            outputs.append(made.towers["class_head"](made.embeddings_in(torch, "image", outputs[0])))
                        texts = torch.zeros((SAMPLES, tokens), dtype=torch.int64, device=device)
                        watch.tokens = [texts]
                        outputs.append(made.towers["text"](texts))
                    else:
                        outputs = network(images)
                    watch.is_backward, outside = True, functions.outside
                    run_backward(torch, made.weights, outputs)
                    if functions.outside != outside:  # code outside a module was recomputed, which would draw differently
                        watch.leave_calls()
            except Exception:
                continue  # the shape is wrong, or the network cannot run on Meta: the plan reports why
            finally:
                made.watch = None
            if python_generators() != before:
                raise RuntimeError("the network draws random numbers with Python or numpy, which cannot be reproduced; "
                                   "draw with torch")
            if watch.changed:
                where = "backward" if watch.changed_backward else "forward"
                raise RuntimeError(f"the network changes its parameters in its {where} pass, with {watch.changed}; "
                                   "only the optimizer may change them")
            return {"draws": watch.found, "dropout_calls": watch.dropout_calls(), "own_modules": watch.unsuitable,
                    "token_rows": watch.token_rows}
    finally:
        network.train(was_training)
    return {}


def run_backward(torch, weights, outputs):
    """Runs the backward pass of a network, with the hooks of the user's code, and restores the gradients. A pass that fails, for
    example because it needs values, reveals nothing."""
    found = [one for one in tensors_in(torch, outputs) if one.requires_grad]
    if not found:
        return
    before = [weight.grad for weight in weights]
    try:
        with without_tracebacks():
            sum(one.sum() for one in found).backward()
    except Exception:
        pass
    finally:
        for weight, gradient in zip(weights, before):
            weight.grad = gradient


def tensors_in(torch, outputs):
    """Yields the tensors in the outputs of a network: a tensor, or nested lists and mappings of tensors."""
    if isinstance(outputs, torch.Tensor):
        yield outputs
    elif isinstance(outputs, (list, tuple, collections.abc.Mapping)):
        for one in outputs.values() if isinstance(outputs, collections.abc.Mapping) else outputs:
            yield from tensors_in(torch, one)


def likely_shapes(network):
    config = getattr(network, "pretrained_cfg", None) or {}
    if config.get("input_size"):
        yield tuple(config["input_size"])
    size = getattr(getattr(network, "config", None), "image_size", None) or getattr(network, "image_size", None)
    if isinstance(size, int):
        yield 3, size, size
    for size in (224, 64, 32, 28, 299):
        for channels in (3, 1):
            yield channels, size, size


def watch_of(torch, weights):
    storages = {weight.untyped_storage()._cdata for weight in weights}
    copies = (torch.ops.aten._to_copy.default, torch.ops.aten.clone.default)

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.found, self.unsuitable = [], []
            self.calls = {}  # by path and number: the probability of a call that drops values, None if torch must draw, and where
            self.changed = None  # what changes a weight, and where; `weight.data` hides this from the weight's version
            self.is_backward = self.changed_backward = False
            self.tokens = []  # tensors with a text tower's tokens
            self.token_rows = None

        def __torch_dispatch__(self, operator, types, inputs=(), named=None):
            named = named or {}
            if torch.Tag.nondeterministic_seeded in operator.tags and draws(operator, inputs, named):
                self.add(operator.name())
            if operator._schema.is_mutable and self.changed is None and self.writes_weight(operator, inputs, named):
                self.changed, self.changed_backward = self.located(operator.name()), self.is_backward
            if operator is torch.ops.aten.embedding.default and self.are_tokens(inputs[1]):
                self.token_rows = min(inputs[0].shape[0], self.token_rows or inputs[0].shape[0])
            output = operator(*inputs, **named)
            if operator in copies and self.are_tokens(inputs[0]):
                self.tokens.append(output)
            return output

        def writes_weight(self, operator, inputs, named):
            for place, argument in enumerate(operator._schema.arguments):
                if argument.alias_info is None or not argument.alias_info.is_write:
                    continue
                value = inputs[place] if place < len(inputs) else named.get(argument.name)
                for tensor in value if isinstance(value, (list, tuple)) else [value]:
                    if isinstance(tensor, torch.Tensor) and tensor.untyped_storage()._cdata in storages:
                        return True
            return False

        def are_tokens(self, tensor):
            return any(tensor.untyped_storage()._cdata == one.untyped_storage()._cdata for one in self.tokens)

        def dropped(self, path, x):
            if x.dim() == 0 or x.shape[0] % SAMPLES != 0:
                self.unsuitable.append(path)
                self.add(f"the dropout layer '{path}'")

        def drop_of_call(self, path, number, x, probability):
            is_suitable = x.dim() > 0 and x.shape[0] % SAMPLES == 0
            if (path, number) not in self.calls or not is_suitable:
                self.calls[path, number] = (probability if is_suitable else None, self.located("dropout"))
            # Like dropout, the product saves a tensor for the backward pass, so a recomputation cannot end before it.
            return (lambda x, probability: x * torch.ones_like(x)) if is_suitable else None

        def leave_calls(self):
            self.found += [place for _, place in self.calls.values() if place not in self.found]
            self.calls.clear()

        def dropout_calls(self):
            return [{"path": path, "number": number, "probability": probability}
                    for (path, number), (probability, _) in self.calls.items() if probability is not None]

        def called(self, path, original, inputs, named):
            output = original(*inputs, **named)
            if not is_of_one_tensor(torch, [*inputs, *named.values()], output) and path not in self.unsuitable:
                self.unsuitable.append(path)
            return output

        def add(self, what):
            text = self.located(what)
            if text not in self.found:
                self.found.append(text)

        def located(self, what):
            frames = [frame for frame in traceback.extract_stack() if os.path.dirname(frame.filename) != HERE]
            own = [frame for frame in frames if f"{os.sep}torch{os.sep}" not in frame.filename]
            place = (own or frames)[-1]
            return f"{what} ({os.path.basename(place.filename)}:{place.lineno})"

    return Watch()


def is_of_one_tensor(torch, inputs, output):
    if isinstance(output, (tuple, list)) and output and all(one is None for one in output[1:]):
        output = output[0]
    others = [one for one in inputs[1:] if isinstance(one, torch.Tensor)]
    return (isinstance(output, torch.Tensor) and bool(inputs) and isinstance(inputs[0], torch.Tensor)
            and not any(one.requires_grad for one in others))


def draws(operator, inputs, named):
    """Returns False for an operator with a dropout probability of 0, which does not draw; otherwise True."""
    for place, argument in enumerate(operator._schema.arguments):
        if argument.name == "dropout_p":
            value = inputs[place] if place < len(inputs) else named.get("dropout_p", argument.default_value)
            return value > 0
    return True


@contextlib.contextmanager
def no_draws(torch, device, who, is_seeded):
    """Raises Refusal if the code inside draws from torch's generators, unless they were seeded for it. In a dry run, on the
    meta device, it also checks the generators of Python and numpy, which are slower to compare."""

    def states():
        found = [] if is_seeded else [torch.get_rng_state()]
        if device.type == "cuda" and not is_seeded:
            found.append(torch.cuda.get_rng_state(device))
        return found

    is_dry = device.type == "meta"
    before, slow = states(), python_generators() if is_dry else []
    yield
    # If numpy has been imported in the meantime, its state is not compared.
    is_same = all(torch.equal(one, other) for one, other in zip(before, states()))
    if is_dry:
        is_same = is_same and all(one == other for one, other in zip(slow, python_generators()))
    if not is_same:
        raise Refusal(f"{who} draws random numbers that cannot be reproduced",
                      "draw in modules of type torch.nn.Dropout or DropPath of the network, or remove the random draws")
