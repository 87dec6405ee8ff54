"""Finds the code that recipes refer to, and runs only code that the user has trusted."""

import difflib
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import inspect
import os
import shlex
import site
import sys
import sysconfig

from retort_host.refusal import Refusal, UntrustedCode

LONGEST_SIGNATURE = 200


class Entries:
    """Finds entries of recipes: "timm:create_model", or "my_net.py:make" relative to the working folder.

    A module in one of the user's folders runs from the bytes that were trusted when the run began,
    and does not run if it was not trusted. Installed modules are imported as usual.
    """

    def __init__(self):
        self.files = {}  # real path -> the SHA-256 that was allowed
        self.folders = []  # where the user's modules are searched for
        self.modules = {}  # modules of files that entries name, by path
        self.refused = None  # the first UntrustedCode
        sys.meta_path.insert(sys.meta_path.index(importlib.machinery.PathFinder), TrustedFinder(self))

    def allow(self, request):
        self.files.update(request["files"])
        for folder in reversed(request["folders"]):
            self.search(folder)
        return {}

    def allowed(self):
        """Returns the request for allow() in a process that reads samples."""
        return {"files": self.files, "folders": self.folders}

    def find(self, entry):
        place, _, names = entry.rpartition(":")
        found, path = self.file(place) if place.endswith(".py") else self.module(place), place
        for name in names.split("."):
            try:
                found = getattr(found, name)
            except AttributeError:
                near = difflib.get_close_matches(name, dir(found), 1)
                raise Refusal(f"{path} has no '{name}'", f"did you mean '{near[0]}'?" if near else "correct the name") from None
            path += (":" if path == place else ".") + name
        if not callable(found):
            raise Refusal(f"{entry} is of type {type(found).__name__}, not a function or class",
                          "name the function or class that creates it")
        return found

    def taking(self, entry, arguments, given=(), class_argument=None, role=""):
        """Returns the function or class that `entry` names. Raises Refusal if it does not accept `given` by position and
        `arguments` by name; `role`, which describes its purpose, is then added to the advice."""
        function = self.find(entry)
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # compiled code has no signature
            return function
        try:
            signature.bind(*given, **arguments)
        except TypeError as error:
            raise Refusal(f"{entry}: {error}", advice_on(signature, arguments, class_argument) + role) from None
        return function

    def module(self, name):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not (name + ".").startswith(error.name + "."):
                raise  # a module that it imports is missing
            raise Refusal(f"this Python has no module '{error.name}'", advice_on_module(error.name)) from None

    def file(self, place):
        path = os.path.realpath(os.path.expanduser(place))
        if path not in self.modules:
            text = self.trusted_text(path)
            name = os.path.splitext(os.path.basename(path))[0]
            other = getattr(sys.modules.get(name), "__file__", None)
            if other and other != path and self.is_users(other):
                raise self.refusal(*two_of(name, [other, path]))
            module = type(sys)(name)
            module.__file__ = path
            self.search(os.path.dirname(path))
            sys.modules.setdefault(name, module)
            try:
                exec(compile(text, path, "exec"), module.__dict__)
            except BaseException:
                if sys.modules.get(name) is module:
                    del sys.modules[name]
                raise
            self.modules[path] = module
        return self.modules[path]

    def search(self, folder):
        """Makes imports search this folder first."""
        if folder in self.folders:
            return
        self.folders.insert(0, folder)
        sys.path.insert(0, folder)

    def trusted_text(self, path):
        """Returns the bytes of a file that may run; raises UntrustedCode for other files."""
        with open(path, "rb") as file:
            text = file.read()
        allowed = self.files.get(path)
        if allowed == hashlib.sha256(text).hexdigest():
            return text
        name, command = shown(path), f"retort trust {shlex.quote(shown(path))}"
        if allowed is None:
            raise self.refusal(f"the Python file '{name}' was never trusted, or has changed since, so it does not run",
                               f"read it, then allow it: {command}")
        raise self.refusal(f"the Python file '{name}' has changed since the run began, so it does not run",
                           f"read it, allow it: {command}, and start again")

    def refusal(self, message, advice):
        refused = UntrustedCode(message, advice)
        self.refused = self.refused or refused
        return refused

    def is_users(self, path):
        """True for a file in the user's folders that is not in a folder of installed modules there."""
        path = os.path.realpath(path)
        own = max((len(folder) for folder in self.folders if is_below(path, folder)), default=0)
        installed = max((len(folder) for folder in INSTALLED if is_below(path, folder)), default=0)
        return own > installed


def advice_on_module(name):
    top = name.partition(".")[0]
    return (f"correct the name, or install it: {shlex.quote(sys.executable)} -m pip install {top}; "
            "python=PATH selects another interpreter")


def advice_on(signature, arguments, class_argument):
    """Returns advice about arguments that do not match a signature."""
    bare = [one.replace(annotation=inspect.Parameter.empty) for one in signature.parameters.values()]
    taken = str(inspect.Signature(bare))
    takes = f"it takes {taken if len(taken) <= LONGEST_SIGNATURE else taken[:LONGEST_SIGNATURE] + '…'}"
    kinds = inspect.Parameter
    names = [one.name for one in signature.parameters.values() if one.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
    if class_argument is not None and class_argument not in names:
        return f"{takes}; class_argument names the argument that takes the number of classes; null omits this argument"
    unknown = [name for name in arguments if name not in names]
    near = difflib.get_close_matches(unknown[0], names, 1) if unknown else []
    if near:
        return f"did you mean '{near[0]}'? {takes}"
    return f"{takes}; set them by name in the 'arguments' option"


class TrustedFinder(importlib.abc.MetaPathFinder):
    """Finds modules in the user's folders, as Python would, and has TrustedLoader load them."""

    def __init__(self, entries):
        self.entries = entries

    def find_spec(self, name, path=None, target=None):
        if not self.entries.folders:
            return None
        spec = self.users(name, path)
        if spec is None:
            return None
        others = [spec.origin]
        if path is None:  # two folders may have a module with this name, which would be ambiguous
            for folder in self.entries.folders:
                other = self.users(name, [folder])
                if other and other.origin not in others:
                    others.append(other.origin)
        spec.loader = TrustedLoader(self.entries, spec, others)
        spec.cached = None
        return spec

    def users(self, name, path):
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is None or not spec.has_location or not self.entries.is_users(spec.origin):
            return None
        spec.origin = os.path.realpath(spec.origin)
        return spec


class TrustedLoader(importlib.abc.Loader):
    """Runs a module from its trusted bytes, never from cached bytecode."""

    def __init__(self, entries, spec, places):
        self.entries, self.places, self.path = entries, places, spec.origin
        self.found = spec.loader

    def create_module(self, spec):
        if len(self.places) > 1:
            raise self.entries.refusal(*two_of(spec.name, self.places))
        self.text = self.entries.trusted_text(self.path)
        return None if self.is_source() else self.found.create_module(spec)

    def exec_module(self, module):
        if self.is_source():
            exec(compile(self.text, self.path, "exec"), module.__dict__)
        else:
            self.found.exec_module(module)

    def is_source(self):
        return isinstance(self.found, importlib.machinery.SourceFileLoader)

    def get_source(self, name):  # for tracebacks and inspect
        return importlib.util.decode_source(self.text) if self.is_source() else None

    def is_package(self, name):
        return self.found.is_package(name)


def two_of(name, places):
    files = " and ".join(f"'{shown(place)}'" for place in places)
    return f"there are two Python modules called '{name}': {files}", "rename one of them, and update its imports"


def shown(path):
    """Returns the path relative to the working folder if it is below that folder."""
    below = os.path.relpath(path)
    return path if below.startswith("..") else below


def is_below(path, folder):
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def installed_folders():
    found = set(site.getsitepackages()) | {site.getusersitepackages()}
    found |= {sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return sorted({os.path.realpath(folder) for folder in found})


INSTALLED = installed_folders()
