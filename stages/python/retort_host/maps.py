"""Finds the last feature maps of a network, for Grad-CAM."""


class FeatureMaps:
    """Inside its with block, keeps the last feature maps, (samples, channels, height, width): the output of the network's last
    convolutions, if only layers without spatial dimensions follow, or else the input of the last of its repeated `blocks`, if it
    consists of an image's tokens, as in vision transformers. In the last block, a class token takes in the other tokens, so that
    the logits do not depend on the tokens after it."""

    def __init__(self, torch, network, blocks, image):
        """`image` is the shape of the network's input."""
        self.torch, self.nn, self.network = torch, torch.nn, network
        self.blocks = [network.get_submodule(path) for path in blocks]
        self.sides = tuple(image[2:])
        self.prefixes = [one.num_prefix_tokens for one in network.modules() if isinstance(getattr(one, "num_prefix_tokens", None), int)]
        self.of_layers = self.of_tokens = None
        self.hooks = []

    @property
    def maps(self):
        return self.of_tokens if self.of_layers is None else self.of_layers

    def __enter__(self):
        self.hooks = [module.register_forward_hook(self.see) for module in self.network.modules()]
        self.hooks += [block.register_forward_pre_hook(self.see_input) for block in self.blocks]
        return self

    def __exit__(self, *_):
        for hook in self.hooks:
            hook.remove()

    def see(self, module, inputs, output):
        if not hasattr(output, "dim") or output.dim() < 3:
            return
        is_map = output.dim() == 4 and output.shape[2] * output.shape[3] > 1
        if is_map and output.shape[1] in self.channels(module):
            self.of_layers = output
        elif is_map and self.of_layers is not None and output.shape == self.of_layers.shape:
            self.of_layers = output  # normalized or activated feature maps
        elif (is_map or output.dim() == 3) and next(module.parameters(recurse=False), None) is not None:
            self.of_layers = None  # tokens, or maps with the channels last

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

    def see_input(self, block, inputs):
        """Computes the input of a block from its feature maps, so that the input has a gradient with respect to the maps."""
        x = inputs[0] if inputs else None
        if not isinstance(x, self.torch.Tensor) or not x.is_floating_point():
            return None
        if x.dim() == 4 and self.has_channels_last(block, x):
            self.of_tokens = x.permute(0, 3, 1, 2)
            return self.of_tokens.permute(0, 2, 3, 1), *inputs[1:]
        grid = self.grid(x.shape[1]) if x.dim() == 3 else None
        if grid is None:
            return None
        prefix, height, width = grid
        patches = x[:, prefix:].transpose(1, 2)
        self.of_tokens = patches.reshape(*patches.shape[:2], height, width)
        return self.torch.cat((x[:, :prefix], self.of_tokens.flatten(2).transpose(1, 2)), dim=1), *inputs[1:]

    def has_channels_last(self, block, x):
        norms = {part.normalized_shape for part in block.modules() if isinstance(part, self.nn.LayerNorm)}
        is_grid = self.grid(x.shape[1] * x.shape[2], prefixes=(0,)) == (0, x.shape[1], x.shape[2])
        return (x.shape[3],) in norms and is_grid and x.shape[1] not in self.channels(block)

    def grid(self, tokens, prefixes=None):
        """Returns how many of the tokens come before those of the image, and its rows and columns of tokens; None if unknown."""
        for prefix in prefixes or self.prefixes or (0, 1, 2, 5):
            side = (self.sides[0] * self.sides[1] / max(1, tokens - prefix)) ** 0.5  # of a patch
            height, width = round(self.sides[0] / side), round(self.sides[1] / side)
            if height * width == tokens - prefix > 1:
                return prefix, height, width
        return None
