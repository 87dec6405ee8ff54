"""Makes functions of torch.nn.functional that drop values use the worker's masks when a network's module calls them."""

import functools
import threading


def call_name(path, number):
    """Returns the name of the worker's dropout layer for a call in the module at `path`."""
    return f"{path}.retort_dropout{number}".lstrip(".")


class Functions:
    """Replaces dropout() and scaled_dot_product_attention() for as long as this process runs. Calls outside tracked modules, and
    calls that drop nothing, reach torch's own functions."""

    def __init__(self, torch):
        self.torch, self.running = torch, threading.local()
        self.outside = 0  # calls that drop values, outside tracked modules
        functional = torch.nn.functional
        self.dropout, self.attention = functional.dropout, functional.scaled_dot_product_attention

        def dropout(input, p=0.5, training=True, inplace=False):
            return self.run_dropout(input, p, training, inplace)

        def scaled_dot_product_attention(*inputs, **named):
            return self.run_attention(*inputs, **named)

        # torch.jit.script compiles torch's own functions.
        dropout.__prepare_scriptable__ = lambda: self.dropout
        torch.jit._builtins._register_builtin(scaled_dot_product_attention, "aten::scaled_dot_product_attention")
        functional.dropout, functional.scaled_dot_product_attention = dropout, scaled_dot_product_attention

    def track(self, module, drop_of):
        """From now on, a call in this module's forward() in training, but not in modules inside it, is computed with
        drop_of(number, x, probability), the worker's dropout, where `number` counts the calls of one forward pass and `x` has
        the rows of the values to drop. None: torch drops them."""
        if isinstance(module, self.torch.jit.ScriptModule):
            return
        original = module.forward

        @functools.wraps(original)
        def forward(*inputs, **named):
            if not hasattr(self.running, "passes"):
                self.running.passes = []
            self.running.passes.append(Pass(module, drop_of))
            try:
                return original(*inputs, **named)
            finally:
                self.running.passes.pop()

        module.forward = forward

    def drop_for(self, x, probability):
        passes = getattr(self.running, "passes", None)
        if passes:
            return passes[-1].next(x, probability)
        self.outside += 1
        return None

    def run_dropout(self, input, p, training, inplace):
        drop = self.drop_for(input, p) if training and p > 0 and not inplace else None
        return self.dropout(input, p, training, inplace) if drop is None else drop(input, p)

    def run_attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False):
        drop = self.drop_for(query, dropout_p) if dropout_p > 0 else None
        if drop is None:
            return self.attention(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
        torch = self.torch
        if enable_gqa:
            key, value = (one.repeat_interleave(query.shape[-3] // one.shape[-3], dim=-3) for one in (key, value))
        scores = query * (query.shape[-1] ** -0.5 if scale is None else scale) @ key.transpose(-2, -1)
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if attn_mask is None:
            weights = scores.softmax(dim=-1)
        elif attn_mask.dtype == torch.bool:  # a row without any key has the output 0
            weights = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min).softmax(dim=-1).masked_fill(~attn_mask, 0)
        else:
            weights = (scores + attn_mask).softmax(dim=-1)
        return drop(weights, dropout_p) @ value


class Pass:
    """One forward pass of a tracked module."""

    def __init__(self, module, drop_of):
        self.module, self.drop_of, self.count = module, drop_of, 0

    def next(self, x, probability):
        if not self.module.training:  # the worker's dropout would drop nothing
            return None
        self.count += 1
        return self.drop_of(self.count - 1, x, probability)
