"""Finds the layers of a network that drop values at random, and computes them with the worker's masks, which depend only on seed,
step and sample."""

import math

ALPHA = 1.7580993408473766  # minus the value of a dropped element, at which SELU saturates
BITS = 24  # of a random number


class Replacement:
    """How the worker drops values for a layer: with this probability, each "element", each "channel" of a sample, each "sample", or
    the whole "batch" at once. `run(drop, x)` returns the layer's output in training; drop(x, probability=None) is the worker's
    dropout. None: the output is drop(x)."""

    def __init__(self, probability, unit, run=None, in_evaluation=lambda x: x):
        self.probability, self.unit, self.run, self.in_evaluation = float(probability), unit, run, in_evaluation

    def forward(self, module, drop):
        """Returns the forward() of the layer."""
        if self.run is None:
            return drop

        def forward(x):
            return self.run(drop, x) if module.training and self.probability > 0 else self.in_evaluation(x)

        return forward


def replacement_of(torch, module):
    """Returns the Replacement of a layer of torch, timm, torchvision, transformers or open_clip; None for other modules."""
    nn, kind = torch.nn, type(module)
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return replacement_of_torchs(torch, module)
    if kind.__name__.endswith("DropPath") and hasattr(module, "drop_prob"):  # also SwinDropPath of transformers
        probability = module.drop_prob or 0.0
        if getattr(module, "scale_by_keep", True):
            return Replacement(probability, "sample")
        return Replacement(probability, "sample", lambda drop, x: drop(x) * (1 - probability))
    if kind.__name__ == "StochasticDepth" and getattr(module, "mode", "") in ("row", "batch"):
        return Replacement(module.p, "sample" if module.mode == "row" else "batch")
    if kind.__name__ in ("DropBlock2d", "DropBlock3d") and not getattr(module, "with_noise", False):
        probability = module.drop_prob if hasattr(module, "drop_prob") else module.p
        return Replacement(probability or 0.0, "element", lambda drop, x: drop_blocks(torch, drop, module, x))
    if kind.__name__ == "PatchDropout" and hasattr(module, "prob"):
        return Replacement(module.prob, "element", lambda drop, x: drop_patches(torch, drop, module, x)[0])
    if kind.__name__ == "PatchDropoutWithIndices" and hasattr(module, "prob"):
        return Replacement(module.prob, "element", lambda drop, x: drop_patches(torch, drop, module, x), lambda x: (x, None))
    return None


def replacement_of_torchs(torch, module):
    nn, forward = torch.nn, type(module).forward  # a subclass may have another one
    if forward is nn.Dropout.forward:
        return Replacement(module.p, "element")
    if forward in (nn.Dropout1d.forward, nn.Dropout2d.forward, nn.Dropout3d.forward):
        return Replacement(module.p, "channel")
    if forward in (nn.AlphaDropout.forward, nn.FeatureAlphaDropout.forward) and module.p < 1:
        unit = "element" if forward is nn.AlphaDropout.forward else "channel"
        return Replacement(module.p, unit, lambda drop, x: alpha_dropout(x, drop(torch.ones_like(x)) > 0, module.p))
    return None


def alpha_dropout(x, kept, probability):
    """Returns the result of torch.nn.AlphaDropout for `x` when only the elements `kept` are kept."""
    a = ((1 - probability) * (1 + probability * ALPHA**2)) ** -0.5
    kept = kept.to(x.dtype)
    return x * (kept * a) + ((kept - 1) * (ALPHA * a) + ALPHA * a * probability)


def drop_blocks(torch, drop, module, x):
    """Returns the result of DropBlock (Ghiasi et al. 2018, arXiv:1810.12890) as timm and torchvision compute it, except that each
    sample is scaled by its own share of kept elements, not by the batch's, so that it does not depend on the other samples."""
    functional = torch.nn.functional
    is_timms = hasattr(module, "gamma_scale")
    sides = x.shape[2:]
    blocks = [min(module.block_size, side) for side in sides]
    if not is_timms:
        blocks = [min(blocks)] * len(sides)
        if blocks[0] % 2 == 0:
            raise ValueError(f"block size should be odd. Got {blocks[0]} which is even.")
    inner = [side - block + 1 for side, block in zip(sides, blocks)]  # the centers of whole blocks
    share = (module.gamma_scale * module.drop_prob if is_timms else module.p) * math.prod(sides)
    probability = min(1.0, share / math.prod(blocks) / math.prod(inner))
    channels = 1 if getattr(module, "couple_channels", False) else x.shape[1]
    with torch.no_grad():
        ones = x.new_ones((x.shape[0], channels, *(sides if is_timms else inner)))
        dropped = (drop(ones, probability) == 0).to(x.dtype)
        margins = [block // 2 for block in blocks]
        if not is_timms:
            dropped = functional.pad(dropped, [margins[0]] * (2 * len(margins)))
        pool = functional.max_pool2d if len(sides) == 2 else functional.max_pool3d
        dropped = pool(dropped, kernel_size=blocks, stride=1, padding=margins)
        for axis, block in enumerate(blocks, start=2):
            if block % 2 == 0:  # the result is one larger than the sample
                dropped = dropped.narrow(axis, 1, dropped.shape[axis] - 1)
        kept = 1 - dropped
        if getattr(module, "scale_by_keep", True):
            counts = kept.float().sum(list(range(1, kept.dim())), keepdim=True)
            kept = kept * (kept[0].numel() / (counts + getattr(module, "eps", 1e-7))).to(x.dtype)
    return x * kept


def drop_patches(torch, drop, module, x):
    """Returns the prefix tokens of `x`, (samples, tokens, width), with a random choice of the other tokens, and the indices of
    these, as PatchDropout of timm and open_clip does (Liu et al. 2022, arXiv:2208.07220)."""
    prefix = module.num_prefix_tokens if hasattr(module, "num_prefix_tokens") else int(module.exclude_first_token)
    first, patches = x[:, :prefix], x[:, prefix:]
    count = max(1, int(patches.shape[1] * (1.0 - module.prob)))
    order = random_numbers(torch, drop, patches.shape[:2], x.device).argsort(dim=1, stable=True)[:, :count]
    if getattr(module, "ordered", False):
        order = order.sort(dim=1)[0]
    chosen = patches.gather(1, order.view(*order.shape, *[1] * (x.dim() - 2)).expand(-1, -1, *x.shape[2:]))
    return torch.cat((first, chosen), dim=1), order


def random_numbers(torch, drop, shape, device):
    """Returns uniform integers below 2^BITS: one row of `shape` per sample."""
    bits = drop(torch.ones((shape[0], math.prod(shape[1:]) * BITS), device=device), 0.5) > 0
    places = torch.arange(BITS, dtype=torch.int32, device=device)
    return bits.view(*shape, BITS).int().bitwise_left_shift(places).sum(-1)
