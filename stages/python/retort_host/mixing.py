"""Finds the layers of a network that normalize over the samples of a batch."""

# Layers of timm and of the inplace_abn package that use batch statistics but are not torch's BatchNorm.
OTHER_MIXING_LAYERS = {"EvoNorm2dB0", "EvoNorm2dB1", "EvoNorm2dB2", "InplaceAbn", "ABN", "InPlaceABN", "InPlaceABNSync"}
# The Python modules of layers with a forward() that calls torch's batch_norm, which several ranks can compute together.
SHARED_FORWARDS = {"torch.nn.modules.batchnorm", "timm.layers.norm_act"}


def mixing_layers(torch, network):
    """Yields the layers that normalize over the samples of a batch, with their paths."""
    for path, module in network.named_modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) or type(module).__name__ in OTHER_MIXING_LAYERS:
            yield path, module


def mixing_layer(torch, network):
    """Returns the first layer that normalizes over the samples of a batch, or None."""
    for path, module in mixing_layers(torch, network):
        return f"'{path}' ({type(module).__name__})"
    return None


def lone_mixing_layer(torch, network):
    """Returns the first such layer that would only see the samples of one rank, or None."""
    for path, module in mixing_layers(torch, network):
        is_shared = type(module).forward.__module__ in SHARED_FORWARDS and "forward" not in vars(module)
        if not is_shared or type(module).__name__ in OTHER_MIXING_LAYERS:
            return f"'{path}' ({type(module).__name__})"
    return None
