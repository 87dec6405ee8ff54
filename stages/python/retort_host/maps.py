"""Finds the last feature maps of a network, for Grad-CAM."""


class FeatureMaps:
    """Inside its with block, keeps the output of a network's last convolutions, (samples, channels, height, width), if only
    layers without spatial dimensions follow."""

    def __init__(self, torch, network):
        self.nn, self.network = torch.nn, network
        self.maps, self.hooks = None, []

    def __enter__(self):
        self.hooks = [module.register_forward_hook(self.see) for module in self.network.modules()]
        return self

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()

    def see(self, module, inputs, output):
        if not hasattr(output, "dim") or output.dim() < 3:
            return
        is_map = output.dim() == 4 and output.shape[2] * output.shape[3] > 1
        if is_map and output.shape[1] in self.channels(module):
            self.maps = output
        elif is_map and self.maps is not None and output.shape == self.maps.shape:
            self.maps = output  # normalized or activated feature maps
        elif (is_map or output.dim() == 3) and next(module.parameters(recurse=False), None) is not None:
            self.maps = None  # tokens, or maps with the channels last

    def channels(self, module):
        """Returns the channel counts of the module's convolutions and BatchNorm layers, in which the channels come first."""
        nn = self.nn
        found = set()
        for part in module.modules():
            if isinstance(part, nn.Conv2d):
                found.add(part.out_channels)
            elif isinstance(part, nn.BatchNorm2d):
                found.add(part.num_features)
        return found
