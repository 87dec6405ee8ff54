"""Creates tokenizers with the user's functions, and turns texts into tokens with them."""

import collections.abc
import sys

from retort_host.draws import python_generators
from retort_host.refusal import Refusal

LONGEST_TEXT = 80  # characters of a text that are shown
PADDING_ADVICE = (
    "pad and truncate all texts to the same length; a transformers tokenizer does this with padding='max_length', truncation=True, "
    "max_length=77"
)


class Tokenizers:
    """The tokenizers that the worker has requested, keyed by the numbers that it uses for them."""

    def __init__(self, torch, entries):
        self.torch, self.entries, self.made = torch, entries, {}

    def make(self, request):
        entry, arguments = request["entry"], request["arguments"]
        role = "; it must return the tokenizer, a function that receives a list of texts and returns a row of tokens for each"
        tokenizer = self.entries.taking(entry, arguments, role=role)(**arguments)
        if not callable(tokenizer):
            raise Refusal(f"{entry} returned {described(tokenizer)}, which cannot be called",
                          "return a function that receives a list of texts and returns a row of tokens for each")
        self.made[request["tokenizer"]] = (entry, tokenizer)
        return {}

    def release(self, request):
        self.made.pop(request["tokenizer"], None)
        return {}

    def tokenize(self, request):
        """Passes the tokens of the texts to the worker, int64 of shape (texts, length)."""
        entry, tokenizer = self.made[request["tokenizer"]]
        texts = request["texts"]
        before = self.generators()
        returned = tokenizer(list(texts))
        # If numpy has been imported in the meantime, its state is not compared.
        if any(one != other for one, other in zip(before, self.generators())):
            raise Refusal(f"the tokenizer of {entry} draws random numbers, so a resumed run would train on other tokens",
                          "turn off its random draws, such as the dropout of byte-pair merges")
        tokens = self.rows(f"the tokenizer of {entry}", returned, texts)
        self.torch.ops.retort.take("tokens", tokens)
        return {}

    def generators(self):
        return [self.torch.get_rng_state().numpy().tobytes(), *python_generators()]

    def rows(self, who, returned, texts):
        """Returns the tokens as a new tensor, int64 on the CPU. Raises Refusal if there is not one row per text, all of the same
        length, or if a token is negative."""
        torch = self.torch
        tensor = self.tensor(who, returned)
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool:
            raise Refusal(f"{who} returned tokens of type {str(tensor.dtype).removeprefix('torch.')}", "return integers")
        if tensor.dim() != 2 or tensor.shape[0] != len(texts) or tensor.shape[1] == 0:
            raise Refusal(f"{who} returned tokens of shape {tuple(tensor.shape)} for {len(texts)} texts",
                          f"return a row of tokens for each text: ({len(texts)}, length)")
        tokens = tensor.detach().to("cpu", torch.int64, copy=True).contiguous()
        lowest = tokens.min(1)
        if int(lowest.values.min()) < 0:
            row = int(lowest.values.argmin())
            raise Refusal(f"{who} returned the token {int(lowest.values[row])} for {texts[row][:LONGEST_TEXT]!r}",
                          "return tokens from 0 on")
        return tokens

    def tensor(self, who, returned):
        """Returns the user's rows as a tensor of any type and shape."""
        torch, numpy = self.torch, sys.modules.get("numpy")
        rows = returned
        if isinstance(rows, collections.abc.Mapping):  # such as the BatchEncoding of transformers
            if "input_ids" not in rows:
                raise Refusal(f"{who} returned a mapping with {', '.join(map(repr, rows)) or 'no values'}",
                              "return the rows of tokens, or a mapping that has them as 'input_ids'")
            rows = rows["input_ids"]
        if isinstance(rows, torch.Tensor):
            return rows
        if numpy and isinstance(rows, numpy.ndarray) and rows.dtype.kind in "iufb":
            return torch.from_numpy(rows.astype("int64" if rows.dtype.kind in "iu" else "float32"))
        if not isinstance(rows, (list, tuple)):
            raise Refusal(f"{who} returned {described(rows)}, not rows of tokens",
                          "return a list of lists, a numpy array, a tensor, or a mapping that has one of them as 'input_ids'")
        return torch.tensor(self.lists(who, rows), dtype=torch.int64)

    def lists(self, who, rows):
        """Returns the rows as lists of integers, all of the same length."""
        lists = [row.tolist() if hasattr(row, "tolist") else row for row in rows]
        other = next((row for row in lists if not isinstance(row, (list, tuple))), lists)
        if other is not lists:
            raise Refusal(f"{who} returned a list with {described(other)}, not a list of rows",
                          "return a list of integers for each text")
        for kind in set().union(*(map(type, row) for row in lists)):
            if kind is bool or not hasattr(kind, "__index__"):
                raise Refusal(f"{who} returned tokens of type {kind.__name__}", "return integers")
        lengths = {len(row) for row in lists}
        if len(lengths) > 1:
            raise Refusal(f"{who} returned rows of {min(lengths)} to {max(lengths)} tokens", PADDING_ADVICE)
        return lists


def described(value):
    return "nothing" if value is None else f"a value of type {type(value).__name__}"
