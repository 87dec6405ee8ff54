"""Delays the import of torch._dynamo, which takes a second, until something compiles.

torch excludes many of its functions from torch.compile, and imports torch._dynamo for this when one of them is first called.
While torch._dynamo is not imported, nothing is compiled, so there is nothing to exclude them from.
"""

import functools
import importlib.machinery
import sys
import types

ATTRIBUTE = "__dynamo_disable"


class LateDynamo:
    """Finds no module, but sees which ones torch imports."""

    def __init__(self):
        self.not_excluded = []  # functions to exclude when torch._dynamo is imported

    def find_spec(self, name, path=None, target=None):
        if name == "torch._dynamo":
            for function in self.not_excluded:
                function.__dict__.pop(ATTRIBUTE, None)
            # torch would compile calls of these two functions.
            sys.meta_path.remove(self)
            for module in (sys.modules["torch"], sys.modules["torch._compile"]):
                module._disable_dynamo = self.exclude
            return None
        if name != "torch._compile":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (load(module), self.replace_in(module))
        return spec

    def replace_in(self, module):
        self.exclude = exclude = module._disable_dynamo

        def excluded(function=None, recursive=True):
            if function is None:
                return functools.partial(excluded, recursive=recursive)
            if not isinstance(function, types.FunctionType):
                return exclude(function, recursive)
            # torch calls this attribute's value instead of the function, and sets it after the import.
            function.__dict__[ATTRIBUTE] = function
            self.not_excluded.append(function)
            caller = exclude(function, recursive)
            caller.__dict__.pop(ATTRIBUTE, None)  # a copy by functools.wraps
            return caller

        module._disable_dynamo = excluded
