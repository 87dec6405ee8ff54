"""Creates networks for the worker, and runs them."""

import difflib
import re
import sys
import threading

from retort_host.blocks import adaptable_layers, blocks, named_blocks
from retort_host.draws import draws_of, python_generators
from retort_host.drops import replacement_of
from retort_host.functions import Functions, call_name
from retort_host.maps import FeatureMaps
from retort_host.mixing import lone_mixing_layer, mixing_layer
from retort_host.pixels import pixels_for, pretrained_of
from retort_host.refusal import Refusal

SIZES = re.compile(r"\b(sizes?|shapes?|dimensions?|height|width)\b", re.IGNORECASE)


class Networks:
    """The networks that the worker has requested, keyed by the numbers that it uses for them."""

    def __init__(self, torch, entries):
        self.torch, self.entries, self.made = torch, entries, {}
        self.operators, self.functions = torch.ops.retort, Functions(torch)
        self.calls, self.last_call = {}, 0  # by call: the arguments of a hosted module other than its input
        self.last_block = threading.local()  # `returned`: how the last block of this thread wraps its output, or None
        self.allows_single_numbers = False
        # In evaluation, a fused operator would use a layer's weight without calling its forward().
        torch.backends.mha.set_fastpath_enabled(False)

    def build(self, request):
        torch = self.torch
        network = self.make(self.entry_of(request), request)
        if not isinstance(network, torch.nn.Module):
            returned = "nothing" if network is None else f"a {type(network).__name__}"
            raise Refusal(f"{request['entry']} returned {returned}, not a torch.nn.Module", "return the network")
        for name, tensor in [*network.named_parameters(), *network.named_buffers()]:
            if torch.nn.parameter.is_lazy(tensor):
                raise Refusal(f"the network's '{name}' has no shape yet, since a lazy layer gets one in its first forward pass",
                              "specify the layer's sizes, or have the function run the network once before returning it")
        number = request["network"]
        made = self.made[number] = Made(network, request)
        dropouts = self.replace_dropouts(made, number) + self.replace_calls(made, number, request.get("dropout_calls", []))
        patterns = request.get("blocks")
        candidates = blocks(torch, network) if patterns is None else named_blocks(network, patterns)
        made.blocks = candidates
        found = [path for path in candidates if path not in made.own]
        layers = adaptable_layers(torch, network)
        for path in found + list(layers):
            module = network.get_submodule(path)
            module.forward = self.hosted(made, number, path, module.forward)
        parameters, buffers = dict(network.named_parameters()), dict(network.named_buffers())
        for name, tensor in parameters.items():
            self.operators.take("parameter:" + name, tensor)
        for name, tensor in buffers.items():
            self.operators.take("buffer:" + name, tensor)
        names = {id(tensor): name for name, tensor in [*parameters.items(), *buffers.items()]}
        state = network.state_dict(keep_vars=True)
        towers = made.find_towers(torch, request["towers"]) if request.get("towers") else None
        return {
            "modules": [path for path, _ in network.named_modules() if path],
            "parameters": list(parameters),
            "buffers": list(buffers),
            "dropouts": dropouts,
            "blocks": found,
            "layers": layers,
            # The network's own names for what it saves. Tied weights have several.
            "state": {name: names[id(tensor)] for name, tensor in state.items() if id(tensor) in names},
            "pretrained": pretrained_of(network, request["arguments"]),
            "mixing_layer": mixing_layer(torch, network),
            "lone_mixing_layer": lone_mixing_layer(torch, network),
            "towers": towers,
            "class": {"name": type(network).__name__, "module": type(network).__module__},
        }

    def entry_of(self, request):
        return self.entries.taking(request["entry"], request["arguments"], class_argument=request.get("class_argument"))

    def pixels(self, request):
        """Returns how images must be prepared for a network, to the extent that the network specifies it."""
        make = self.entry_of(request)
        return pixels_for(request["entry"], make, request["arguments"],
                          lambda: self.make(make, {**request, "device": "meta", "seed": 0}))

    def make(self, make, request):
        """Returns the result of the entry."""
        try:
            return self.make_on_device(make, request)
        except (RuntimeError, TypeError, ValueError) as error:
            advise_on_library(error, request)
            raise

    def make_on_device(self, make, request):
        """Code that cannot run on the Meta device, such as transformers' from_pretrained, runs on the CPU, and its values are
        dropped."""
        torch = self.torch
        torch.default_generator.manual_seed(request["seed"] & 0x7FFFFFFFFFFFFFFF)
        try:
            with torch.device(request["device"]):
                return make(**request["arguments"])
        except Exception:
            if request["device"] == "cpu":
                raise
        network = make(**request["arguments"])
        return network.to(request["device"]) if isinstance(network, torch.nn.Module) else network

    def replace_dropouts(self, made, number):
        """Replaces layers that drop values with the worker's own dropout, with masks that depend only on seed, step and sample."""
        found = []
        for path, module in made.network.named_modules():
            replacement = None if path in made.own else replacement_of(self.torch, module)
            if replacement is not None:
                module.forward = replacement.forward(module, self.dropped(made, number, path))
                found.append({"path": path, "probability": replacement.probability, "unit": replacement.unit})
        return found

    def replace_calls(self, made, number, calls):
        """Does the same for functions that drop values when modules call them."""
        found, drops = [], {}
        for call in calls:
            name = call_name(call["path"], call["number"])
            drops.setdefault(call["path"], {})[call["number"]] = self.dropped(made, number, name)
            found.append({"path": name, "probability": call["probability"], "unit": "element"})
        for path, of_module in drops.items():
            self.functions.track(made.network.get_submodule(path), lambda nth, x, probability, drops=of_module: drops.get(nth))
        return found

    def dropped(self, made, number, path):
        def drop(x, probability=None):
            if made.watch is None:
                return self.operators.dropout(x, number, path, probability)
            made.watch.dropped(path, x)
            return x

        return drop

    def probe(self, request):
        """Returns the random draws of a training forward pass on the given device, for samples of the given shape."""
        made = self.made[request["network"]]
        return draws_of(self.torch, made, self.functions, request.get("shape"), request.get("tokens"), request["device"])

    def hosted(self, made, number, path, original):
        """Returns a forward() that lets the worker recompute a module, or give it a number format or an adapter."""
        made.forwards[path] = original

        def forward(*inputs, **named):
            if made.watch is not None:
                return made.watch.called(path, original, inputs, named)
            if path not in made.active:
                return original(*inputs, **named)
            if not inputs and named:  # called with keywords: the first one is the input
                name = next(iter(named))
                inputs, place = (named.pop(name),), name
            else:
                place = None
            if not inputs or not isinstance(inputs[0], self.torch.Tensor):
                raise TypeError(f"'{path}' does not receive a tensor as its first argument, so it cannot be recomputed, "
                                "adapted or given its own precision")
            call = 0
            if inputs[1:] or named or place:
                others = list(inputs[1:]) + list(named.values())
                if any(isinstance(one, self.torch.Tensor) and one.requires_grad for one in others):
                    raise TypeError(f"'{path}' receives several tensors that require gradients, so it cannot be recomputed")
                self.last_call += 1
                call = self.last_call
                self.calls[call] = (inputs[1:], named, place)
            output = self.operators.run(inputs[0], number, path, call)
            returned = self.last_block.returned
            return output if returned is None else returned(output)

        return forward

    def run(self, request):
        """Runs the original forward of a hosted module for the worker."""
        made, path = self.made[request["network"]], request["path"]
        inputs, named, place = self.calls.get(request["call"], ((), {}, None))
        given = self.operators.give("argument")
        if place is None:
            output = made.forwards[path](given, *inputs, **named)
        else:
            output = made.forwards[path](**{place: given}, **named)
        returned = None
        if isinstance(output, (tuple, list)) and output and all(one is None for one in output[1:]):
            rest = tuple(output[1:])
            returned = lambda first: (first, *rest)
            output = output[0]
        if not isinstance(output, self.torch.Tensor):
            raise TypeError(f"'{path}' returned {type(output).__name__}, not one tensor, so it cannot be recomputed, "
                            "adapted or given its own precision")
        self.operators.take("result", output)
        self.last_block.returned = returned
        return {}

    def forget(self, request):
        self.calls.pop(request["call"], None)
        return {}

    def set_up_cuda(self, request):
        """Does what torch does when Python first creates a tensor on a GPU, which also seeds the generators there."""
        self.torch.cuda.init()
        return {}

    def train(self, request):
        self.made[request["network"]].network.train(request["on"])
        return {}

    def share_batches(self):
        """Allows batches with a single value per channel, which torch rejects, because a rank's share may contain no more."""
        if self.allows_single_numbers or not self.operators.shares_batch():
            return
        functional = self.torch.nn.functional
        verify = functional._verify_batch_size
        functional._verify_batch_size = lambda size: None if self.operators.shares_batch() else verify(size)
        self.allows_single_numbers = True

    def forward(self, request):
        torch, made = self.torch, self.made[request["network"]]
        self.share_batches()
        made.active = set(request["active"])
        inputs = self.operators.give("input")
        version, before = inputs._version, made.generators_to_watch()
        weights = made.weight_versions()
        maps = None
        try:
            if request.get("tower") == "class_head":
                outputs = made.logits(torch, inputs)
            elif request.get("tower"):
                outputs = made.embeddings(torch, request["tower"], inputs)
            elif request.get("maps"):
                with FeatureMaps(torch, made.network, made.blocks, inputs.shape) as found:
                    outputs = made.network(inputs)
                maps = found.maps
            else:
                outputs = made.network(inputs)
        except (RuntimeError, ValueError, AssertionError) as error:
            if SIZES.search(str(error)) and not isinstance(error, torch.OutOfMemoryError) and not hasattr(error, "retort_advice"):
                error.retort_advice = (f"the network's input has the shape {tuple(inputs.shape)}; for images, the data's "
                                       "image_size sets the height and width")
            raise
        if isinstance(outputs, torch.Tensor):
            outputs = {"logits": outputs}
        elif isinstance(getattr(outputs, "logits", None), torch.Tensor):  # the output of networks from transformers
            outputs = {"logits": outputs.logits}
        if not isinstance(outputs, dict) or not all(isinstance(one, torch.Tensor) for one in outputs.values()):
            raise Refusal(f"the network returned {'nothing' if outputs is None else 'a ' + type(outputs).__name__}",
                          "return logits, or a mapping of named tensors")
        made.check(inputs, outputs)
        if not request.get("tower") and torch.is_grad_enabled():
            learns = any(weight.requires_grad for weight in made.network.parameters())
            if learns and not any(one.requires_grad for one in outputs.values()):
                raise Refusal("the network returned outputs that do not depend on its weights",
                              "compute them with its layers, outside torch.no_grad() and without .detach()")
        if inputs._version != version:
            raise RuntimeError("the network changes its input in place; it must create a new tensor")
        if made.weight_versions() != weights:
            raise RuntimeError("the network changes its parameters in its forward pass; only the optimizer may change them")
        if before is not None and python_generators() != before:
            raise RuntimeError("the network draws random numbers with Python or numpy, which cannot be reproduced; "
                               "draw with torch")
        for name, tensor in outputs.items():
            self.operators.take("output:" + name, tensor)
        if maps is not None:
            self.operators.take("maps", maps)
        return {"outputs": list(outputs), "has_maps": maps is not None}

    def opened(self, number, active):
        """Returns the network itself, for code that calls it. The worker runs the hosted modules in `active`."""
        made = self.made[number]
        self.share_batches()
        made.check_weights()
        made.active = set(active)
        return made.network

    def release(self, request):
        self.made.pop(request["network"], None)
        return {}


class Made:
    """A network that the worker has requested, with its hosted modules, towers and weights."""

    def __init__(self, network, request):
        self.network, self.classes = network, request.get("classes")
        self.class_argument = request.get("class_argument")
        self.own = set(request.get("own_modules", []))  # dropout layers and blocks that only Python runs
        self.blocks = []  # the paths of the repeated blocks
        self.active, self.forwards = set(), {}  # the hosted modules that the worker runs; forward() of all
        self.towers = {}  # the functions that embed images and texts and, as "class_head", one that classifies images
        self.watch, self.passes = None, 0
        self.tables = []  # (a module's parameters or buffers, the names that are not saved, the number of saved ones)
        self.held = []  # (such a table, a name in it, the tensor, "parameter 'fc.weight'")
        for path, module in network.named_modules():
            for kind, table in (("parameter", module._parameters), ("buffer", module._buffers)):
                unsaved = module._non_persistent_buffers_set
                saved = [(name, tensor) for name, tensor in table.items() if name not in unsaved]
                if kind == "parameter" or table:
                    self.tables.append((table, unsaved, len(saved)))
                for name, tensor in saved:
                    self.held.append((table, name, tensor, f"{kind} '{path}.{name}'".replace("'.", "'")))
        self.weights = list(network.parameters())

    def find_towers(self, torch, wanted):
        """Finds the functions that embed images and texts, the class head and the scalar parameters, if wanted. Returns whether
        "image", "text" and "class_head" exist, and for "logit_scale" and "logit_bias" what find_scalar() returns."""
        found = {"network": type(self.network).__name__}
        for tower in ("image", "text", "class_head"):
            if tower not in wanted:
                continue
            method = attribute(self.network, wanted[tower])
            found[tower] = callable(method)
            self.towers[tower] = method
        names = {id(tensor): name for name, tensor in self.network.named_parameters()}
        for scalar in ("logit_scale", "logit_bias"):
            if scalar in wanted:
                found[scalar] = self.find_scalar(torch, wanted[scalar], names)
        return found

    def find_scalar(self, torch, path, names):
        """Returns the "name" of a one-element parameter, or what the attribute is "instead"; {} if there is none."""
        value = attribute(self.network, path)
        if id(value) in names and value.numel() == 1:
            return {"name": names[id(value)]}
        if id(value) in names:
            return {"instead": f"a parameter of shape {tuple(value.shape)}"}
        if isinstance(value, torch.Tensor):
            return {"instead": "a tensor that is not a parameter"}
        return {} if value is None else {"instead": f"of type {type(value).__name__}"}

    def embeddings(self, torch, tower, inputs):
        """Returns {"image_embeddings": one row per image} or {"text_embeddings": …}."""
        try:
            output = self.towers[tower](inputs)
        except Exception as error:
            if tower == "text" and isinstance(error, (IndexError, RuntimeError)) and "meta" not in str(error):
                error.retort_advice = (f"it received int64 tokens of shape {tuple(inputs.shape)} from model.towers.tokenizer; its "
                                       "context_length, padding and merges must match the network; Python's traceback is in "
                                       "log.txt")
            raise
        return {tower + "_embeddings": self.embeddings_in(torch, tower, output)}

    def embeddings_in(self, torch, tower, output):
        """Returns the tensor of embeddings in the output of a tower."""
        name = tower + "_embeddings"
        pooled = getattr(output, "pooler_output", None)  # the output of get_image_features in transformers
        if isinstance(pooled, torch.Tensor):
            output = pooled
        elif isinstance(output, dict) and name in output:
            output = output[name]
        if not isinstance(output, torch.Tensor):
            names = f" with {', '.join(map(repr, output))}" if isinstance(output, dict) else ""
            raise TypeError(f"the {tower} tower returned {type(output).__name__}{names}; it must return a tensor with one "
                            f"row per {tower}, or a mapping with '{name}'")
        return output

    def logits(self, torch, embeddings):
        """Returns {"logits": a row of class scores for each image embedding}."""
        output = self.towers["class_head"](embeddings)
        if not isinstance(output, torch.Tensor):
            raise TypeError(f"the class head returned {type(output).__name__}; it must return a tensor of logits, one per class")
        return {"logits": output}

    def generators_to_watch(self):
        """Returns the states of Python's and numpy's generators in the first passes and in some later ones, else None: reading them
        costs as much as running a tiny network."""
        self.passes += 1
        return python_generators() if self.passes <= 3 or self.passes % 64 == 0 else None

    def weight_versions(self):
        return [weight._version for weight in self.weights]

    def check(self, inputs, outputs):
        """Raises an exception if the outputs do not match the inputs or check_weights() fails."""
        for name, tensor in outputs.items():
            if tensor.device != inputs.device:
                raise ValueError(f"the network returned '{name}' on {tensor.device}, but its input is on {inputs.device}")
        logits = outputs.get("logits")
        if logits is not None:
            if logits.dim() == 0 or logits.shape[0] != inputs.shape[0]:
                raise ValueError(f"the network returned logits of shape {tuple(logits.shape)} for "
                                 f"{inputs.shape[0]} samples")
            if self.classes is not None and logits.dim() == 2 and logits.shape[1] != self.classes:
                advice = f"set its last layer's size to the number of classes, {self.classes}"
                if self.class_argument:
                    advice = (f"set its last layer's size to the number of classes, which it receives as '{self.class_argument}'; "
                              "class_argument: null is for networks with outputs that are not classes")
                raise Refusal(f"the network returned {logits.shape[1]} logits per sample, but the data needs "
                              f"{self.classes}, one per class", advice)
        self.check_weights()

    def check_weights(self):
        """Raises an exception if the network has replaced its weights."""
        for table, name, tensor, called in self.held:
            if table.get(name) is not tensor:
                raise RuntimeError(f"the network has replaced its {called} with another tensor, which would not be saved; "
                                   "change it in place")
        if any(len(table.keys() - unsaved if unsaved else table) != size for table, unsaved, size in self.tables):
            raise RuntimeError("the network has added a parameter or buffer, which would not be saved; "
                               "create it in the constructor")


def advise_on_library(error, request):
    """Adds advice to a library's error about arguments, such as models with similar names."""
    argument = request.get("class_argument")
    if argument and f"unexpected keyword argument '{argument}'" in str(error):
        error.retort_advice = "class_argument names the argument that takes the number of classes; null omits this argument"
    elif "parameter 'num_classes' expected value" in str(error):
        error.retort_advice = ("these weights are for other classes: set entry to a function of your own that creates the "
                               "network with these weights and then replaces its last layer")
    library = request["entry"].partition(":")[0]
    models = sys.modules.get({"timm": "timm", "torchvision": "torchvision.models"}.get(library.partition(".")[0]))
    if models is None or not str(error).startswith("Unknown model"):
        return
    wanted = str(request["arguments"].get("model_name") or request["arguments"].get("name")).partition(".")[0]
    near = difflib.get_close_matches(wanted, models.list_models(), 3)
    listed = f"{models.__name__}.list_models() lists them"
    error.retort_advice = f"did you mean {' or '.join(map(repr, near))}? {listed}" if near else listed


def attribute(network, path):
    """Returns the attribute with this dotted name, or None."""
    for name in path.split("."):
        network = getattr(network, name, None)
    return network
