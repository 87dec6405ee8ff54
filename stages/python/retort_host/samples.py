"""Datasets created by the user's code, and their samples as bytes."""

import ctypes
import random
import struct
import sys

TYPES = ("bool", "uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32")
MOST_DIMENSIONS = 16
MODES_OF_8_BITS = ("1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV", "LAB")


class BadSample(Exception):
    """Raised for a sample or a dataset that cannot be used. The kind is "sample", "label" or "data"."""

    def __init__(self, message, help, kind="sample"):
        super().__init__(message)
        self.help, self.kind = help, kind


def seed_all(seed):
    """Seeds all random number generators in this process: those of Python and, if loaded, of numpy and torch."""
    random.seed(seed)
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy:
        numpy.random.seed([seed & 0xFFFFFFFF, seed >> 32])
    if torch:
        torch.default_generator.manual_seed(seed)


class Item:
    """A value of a sample: its name, type, shape and bytes."""

    def __init__(self, name, dtype, shape, data):
        self.name, self.dtype, self.shape, self.data = name, dtype, list(shape), data

    def says(self):
        return f"{self.dtype} ({', '.join(map(str, self.shape))})"

    def spec(self):
        return {"name": self.name, "shape": self.shape, "dtype": self.dtype}


def refuse_type(name, found, help):
    raise BadSample(f"its '{name}' is {found}", help)


def item_of(name, value):
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if isinstance(value, bool):
        return Item(name, "bool", (), struct.pack("<?", value))
    if isinstance(value, int):
        return Item(name, "int64", (), struct.pack("<q", value))
    if isinstance(value, float):  # includes numpy.float64
        if value != value:
            refuse_type(name, "NaN", "correct the dataset: NaN values make the loss NaN")
        return Item(name, "float32", (), struct.pack("<f", value))
    if torch and isinstance(value, torch.Tensor):
        return of_tensor(torch, name, value)
    if numpy and isinstance(value, (numpy.ndarray, numpy.generic)):
        return of_array(numpy, name, value)
    if value is None:
        refuse_type(name, "None", "give every sample a value for each name")
    pillow = sys.modules.get("PIL.Image")
    if pillow and isinstance(value, pillow.Image):
        return of_picture(name, value)
    help = "make it a number, a numpy array or a tensor, or leave it out: tensors: [image, label]"
    refuse_type(name, "of type " + type(value).__name__, help)


def check_type(name, dtype, shape):
    if dtype == "float64":
        refuse_type(name, "float64", "convert it: array.astype('float32'), or tensor.float()")
    if dtype not in TYPES:
        refuse_type(name, dtype, "convert it to one of " + ", ".join(TYPES))
    if 0 in shape or len(shape) > MOST_DIMENSIONS:
        refuse_type(name, f"of shape ({', '.join(map(str, shape))})", "give it at least one element and at most 16 dimensions")


def check_numbers(name, has_nan):
    if has_nan:
        raise BadSample(f"its '{name}' contains NaN", "correct the dataset: NaN values make the loss NaN")


def of_tensor(torch, name, value):
    dtype = str(value.dtype).removeprefix("torch.")
    if value.device.type != "cpu" or value.layout is not torch.strided:
        found = f"a tensor on {value.device}" if value.device.type != "cpu" else f"a tensor of layout {value.layout}"
        refuse_type(name, found, "return a dense tensor on the CPU")
    check_type(name, dtype, value.shape)
    tensor = value.detach().as_subclass(torch.Tensor).resolve_neg().contiguous()
    # The sum is fast to compute, and it is NaN if any element is.
    check_numbers(name, tensor.is_floating_point() and bool(tensor.sum().isnan()) and bool(tensor.isnan().any()))
    size = tensor.numel() * tensor.element_size()
    data = (ctypes.c_char * size).from_address(tensor.data_ptr())
    data.owner = tensor  # keeps the memory alive
    return Item(name, dtype, tensor.shape, data)


def of_array(numpy, name, value):
    check_type(name, value.dtype.name, value.shape)
    array = numpy.asarray(value, dtype=value.dtype.newbyteorder("="), order="C")
    check_numbers(name, array.dtype.kind == "f" and bool(numpy.isnan(array).any()))
    return Item(name, array.dtype.name, value.shape, array.reshape(-1).view(numpy.uint8).data)


def of_picture(name, picture):
    """Converts a Pillow image as torchvision's to_tensor() does after convert("RGB")."""
    found = f"a PIL image of mode {picture.mode}"
    if name != "image":
        refuse_type(name, found, "name it 'image' to get RGB values from 0 to 1; convert others, such as masks, to arrays: "
                                 "numpy.asarray(picture)")
    if picture.mode not in MODES_OF_8_BITS:
        refuse_type(name, found, "convert it to an array of the values that the network needs: numpy.asarray(picture)")
    try:
        import numpy
    except ImportError:
        refuse_type(name, found, "install numpy in this Python: pip install numpy")
    pixels = numpy.asarray(picture.convert("RGB")).transpose(2, 0, 1)
    return of_array(numpy, name, pixels.astype("float32") / numpy.float32(255))


def as_integer(value):
    """Returns an integer scalar as int; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if torch and isinstance(value, torch.Tensor):
        kinds = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
        return int(value) if value.dim() == 0 and value.dtype in kinds else None
    if numpy and isinstance(value, (numpy.ndarray, numpy.generic)):
        return int(value) if value.shape == () and value.dtype.kind in "iu" else None
    return None


class DataSet:
    """A map-style dataset, its description and its samples."""

    def __init__(self, made, request):
        for method in ("__len__", "__getitem__"):
            if not hasattr(made, method):
                raise BadSample(f"{request['entry']} returned {type(made).__name__}, which has no {method}",
                                "return a map-style dataset, with __len__ and __getitem__", "data")
        self.made, self.names, self.group = made, request["names"], request["group"]
        self.size = len(made)
        self.classes = request["classes"] if request["classes"] is not None else self.found_classes()
        self.expected = request.get("expected")

    def found_classes(self):
        """Returns the class names, which datasets of torchvision and Hugging Face provide; empty if there are none."""
        found = getattr(self.made, "classes", None)
        if found is None:
            try:
                found = self.made.features["label"].names
            except (AttributeError, KeyError, TypeError):
                return []
        if not isinstance(found, (list, tuple)) or not all(isinstance(name, str) for name in found):
            raise BadSample("its 'classes' attribute is not a list of names", "correct it, or write classes: [a, b]", "data")
        return list(found)

    def found_labels(self):
        """Returns the labels of all samples from `targets`, `labels` or a table's "label" column; empty if they are unknown."""
        if not self.classes:
            return []
        for name in ("targets", "labels"):
            labels = self.integers(getattr(self.made, name, None))
            if labels:
                return labels
        if "label" in (getattr(self.made, "column_names", None) or []):
            return self.integers(self.made["label"])
        return []

    def found_groups(self):
        """Returns each sample's group as a string, from the attribute or column set in the recipe; empty if none is set."""
        if self.group is None:
            return []
        values = getattr(self.made, self.group, None)
        if values is None and self.group in (getattr(self.made, "column_names", None) or []):
            values = self.made[self.group]
        try:
            values = list(values)
        except TypeError:
            raise BadSample(f"it has no list '{self.group}' with the group of each sample",
                            "give the dataset this attribute or column, or set group: null", "data") from None
        if len(values) != self.size:
            raise BadSample(f"its '{self.group}' has {len(values)} values, but it has {self.size} samples",
                            "give each sample one group", "data")
        groups = []
        for index, value in enumerate(values):
            number = as_integer(value)
            groups.append(value if isinstance(value, str) else "" if number is None else str(number))
            if not groups[-1]:
                raise BadSample(f"its '{self.group}' has {value!r:.100} for sample {index}",
                                "write each group as a string or an integer", "data")
        return groups

    def integers(self, values):
        try:
            labels = [as_integer(value) for value in values]
        except TypeError:
            return []
        is_right = len(labels) == self.size and all(one is not None and 0 <= one < len(self.classes) for one in labels)
        return labels if is_right else []

    def items(self, index, seed):
        had_torch = "torch" in sys.modules
        seed_all(seed)
        sample = self.made[index]
        if not had_torch and "torch" in sys.modules:  # the sample has imported torch, which was not seeded yet
            seed_all(seed)
            sample = self.made[index]
        return [self.label_of(value) if name == "label" and self.classes else item_of(name, value)
                for name, value in self.named(sample).items()]

    def named(self, sample):
        names = self.names
        if isinstance(sample, (tuple, list)):
            if names is None:
                raise BadSample(f"it is a {type(sample).__name__} of values without names",
                                "name them in their order: tensors: [image, label], or return a dict")
            if len(sample) != len(names):
                raise BadSample(f"it has {len(sample)} values, but 'tensors' has {len(names)} names",
                                "name each value in 'tensors'")
            return dict(zip(names, sample))
        if not hasattr(sample, "keys"):
            raise BadSample(f"it is of type {type(sample).__name__}", "return a dict of values by name")
        if names is not None:
            for name in names:
                if name not in sample:
                    raise BadSample(f"it has no '{name}', which 'tensors' lists", "correct the names")
            return {name: sample[name] for name in names}
        named = dict(sample)
        for name in named:
            if not isinstance(name, str) or not 0 < len(name) <= 100:
                raise BadSample(f"a value's name is {name!r:.100}", "use strings of at most 100 characters as names")
        if not named:
            raise BadSample("it has no values", "return a dict of values by name")
        return named

    def label_of(self, value):
        label = as_integer(value)
        if isinstance(value, str):
            known = f": '{value}' is {self.classes.index(value)}" if value in self.classes else ""
            refuse_type("label", "a string", f"use the number of its class{known}")
        if label is None:
            found = item_of("label", value)
            refuse_type("label", found.says(), "use the number of its class, one integer")
        if not 0 <= label < len(self.classes):
            raise BadSample(f"its label is {label}, but there are {len(self.classes)} classes",
                            f"labels go from 0 to {len(self.classes) - 1}", "label")
        return Item("label", "int64", (), struct.pack("<q", label))

    def check(self, items):
        """Checks that the values have the same names, types and shapes as the first sample's, and returns them in its order."""
        found = {item.name: item for item in items}
        for name in found.keys() - {spec["name"] for spec in self.expected}:
            raise BadSample(f"it has '{name}', which sample 0 lacks", "use the same names in every sample")
        for spec in self.expected:
            name = spec["name"]
            if name not in found:
                raise BadSample(f"it has no '{name}', which sample 0 has", "use the same names in every sample")
            wanted = Item(name, spec["dtype"], spec["shape"], b"").says()
            if found[name].says() != wanted:
                raise BadSample(f"its '{name}' is {found[name].says()}, but that of sample 0 is {wanted}",
                                "samples are stacked into batches: give them all the same shape and type" + (
                                    ", for example with image.resize((224, 224))" if name == "image" else ""))
        return [found[spec["name"]] for spec in self.expected]

    def description(self, seed):
        tensors, is_steady = [], True
        if self.size > 0:
            try:
                first = [(item.spec(), bytes(item.data)) for item in self.items(0, seed)]
            except BadSample as error:
                raise BadSample(f"sample 0: {error}", error.help, error.kind) from None
            is_steady = first == [(item.spec(), bytes(item.data)) for item in self.items(0, seed)]
            tensors = [spec for spec, _ in first]
        self.expected = tensors
        return {"size": self.size, "classes": self.classes, "labels": self.found_labels(),
                "groups": self.found_groups(), "tensors": tensors, "is_steady": is_steady}


class DataSets:
    """The datasets that the worker has requested, keyed by the numbers that it uses for them."""

    def __init__(self, entries):
        self.entries, self.opened = entries, {}

    def open(self, request):
        make = self.entries.taking(request["entry"], request["arguments"])
        seed_all(request["seed"])
        data = DataSet(make(**request["arguments"]), request)
        self.opened[request["set"]] = data
        if data.expected is None:
            return data.description(request["seed"])
        if data.size != request["size"]:
            raise BadSample(f"it has {data.size} samples in one process, but {request['size']} in another",
                            "create the same dataset each time", "data")
        return {}

    def sample(self, request):
        data = self.opened[request["set"]]
        items = data.check(data.items(request["index"], request["seed"]))
        if data.classes and request.get("label") is not None:
            own = next((item for item in items if item.name == "label"), None)
            if own is not None and own.data != struct.pack("<q", request["label"]):
                raise BadSample(f"its label is {struct.unpack('<q', own.data)[0]}, but the dataset's list of labels "
                                f"has {request['label']}", "correct one of them", "label")
        return [item.data for item in items]
