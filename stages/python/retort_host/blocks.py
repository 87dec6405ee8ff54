"""Finds the modules of a network that the worker may run: blocks to recompute, and layers to adapt."""


def blocks(torch, network):
    """Returns the paths of the repeated blocks: the innermost members of a Sequential or ModuleList that contain modules
    with weights and have a type that occurs there at least twice, or that are the only member."""
    nn = torch.nn
    found = []
    for path, module in network.named_modules():
        if type(module) not in (nn.Sequential, nn.ModuleList):
            continue
        kinds = [type(one) for one in module.children()]
        for name, one in module.named_children():
            is_repeated = kinds.count(type(one)) > 1 or len(kinds) == 1
            if is_repeated and not isinstance(one, (nn.Sequential, nn.ModuleList)) and is_made_of_layers(one):
                found.append(f"{path}.{name}" if path else name)
    known = {path for path, _ in network.named_modules()}  # a module that occurs twice has one path
    return [path for path in found if path in known and not any(other.startswith(path + ".") for other in found)]


def named_blocks(network, patterns):
    """Returns the paths of the modules that a pattern matches, without those inside other matching modules. A * in a pattern
    stands for any one name."""
    def matches(path):
        names = path.split(".")
        return any(len(names) == len(wanted) and all(one in ("*", name) for one, name in zip(wanted, names))
                   for wanted in (pattern.split(".") for pattern in patterns))

    found = [path for path, _ in network.named_modules() if path and matches(path)]
    return [path for path in found if not any(path.startswith(other + ".") for other in found)]


def is_made_of_layers(module):
    return any(next(child.parameters(), None) is not None for child in module.children())


def adaptable_layers(torch, network):
    """Returns the linear layers and plain convolutions by path, with the stride, padding and dilation of convolutions."""
    nn = torch.nn
    found = {}
    for path, module in network.named_modules():
        kind = type(module)
        if not path or not isinstance(module._parameters.get("weight"), nn.Parameter):
            continue
        if kind is nn.Linear:
            found[path] = {}
        elif (kind is nn.Conv2d and module.groups == 1 and module.padding_mode == "zeros"
              and not isinstance(module.padding, str)):
            found[path] = {"stride": list(module.stride), "padding": list(module.padding),
                           "dilation": list(module.dilation)}
    return found
