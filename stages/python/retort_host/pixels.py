"""Finds out how images must be prepared for a network."""

import sys

LOADING = ("cache_dir", "revision", "subfolder", "token", "local_files_only")  # arguments of transformers' from_pretrained


def pixels_for(entry, function, arguments, make):
    """Returns what is known of "image_size", "mean" and "std" for the network that function(**arguments) creates, and "source",
    which says where these values come from. `make` creates the network on the Meta device."""
    library = entry.partition(":")[0].partition(".")[0]
    if library == "transformers":
        return pixels_of_transformers(arguments)
    network = make()
    config = getattr(network, "pretrained_cfg", None)
    if isinstance(config, dict):
        return pixels_of_timm(config, arguments)
    return pixels_of_torchvision(function, arguments, network) if library == "torchvision" else {}


def pixels_of_timm(config, arguments):
    shape = config.get("input_size")
    size = arguments.get("img_size", shape[-2:] if is_list(shape) else None)
    return known("pretrained_cfg of the network", size, config.get("mean"), config.get("std"))


def pixels_of_torchvision(function, arguments, network):
    models = sys.modules["torchvision"].models
    weights = arguments.get("weights")
    try:
        kinds = models.get_model_weights(function)
    except ValueError:  # a function without weights
        return {}
    weights = kinds.verify(weights) or kinds.DEFAULT
    preset = weights.transforms()
    size = getattr(network, "image_size", getattr(preset, "crop_size", None))  # that of a vision transformer is fixed
    return known(f"torchvision's {weights}", size, getattr(preset, "mean", None), getattr(preset, "std", None))


def pixels_of_transformers(arguments):
    """Reads the preprocessor_config.json next to the weights."""
    from transformers.image_processing_base import ImageProcessingMixin

    name = arguments.get("pretrained_model_name_or_path")
    if name is None:
        return {}
    try:
        config, _ = ImageProcessingMixin.get_image_processor_dict(
            name, **{key: arguments[key] for key in LOADING if key in arguments})
    except OSError:  # there is none
        return {}
    size = config.get("crop_size") if config.get("do_center_crop") else None
    size = size or config.get("size")
    if isinstance(size, dict):
        size = size.get("shortest_edge") or (size.get("height"), size.get("width"))
    mean, std = config.get("image_mean"), config.get("image_std")
    if config.get("do_normalize") is False:
        mean, std = [0.0] * 3, [1.0] * 3
    return known(f"preprocessor_config.json of {name}", size, mean, std)


def known(source, size, mean, std):
    found = {"source": source}
    sides = list(size) if is_list(size) else [size]
    if len(set(sides)) == 1 and isinstance(sides[0], int):
        found["image_size"] = sides[0]
    if is_list(mean) and is_list(std) and len(mean) == len(std) == 3:
        found["mean"], found["std"] = ([float(number) for number in numbers] for numbers in (mean, std))
    return found


def is_list(value):
    return isinstance(value, (list, tuple))


def pretrained_of(network, arguments):
    """Returns the input for which timm's weights were trained, from the network's pretrained_cfg; None if unknown."""
    config = getattr(network, "pretrained_cfg", None)
    if not arguments.get("pretrained") or not isinstance(config, dict):
        return None
    wanted = {key: list(config[key]) for key in ("input_size", "mean", "std") if config.get(key)}
    if len(wanted) < 3:
        return None
    return {**wanted, "fixed": bool(config.get("fixed_input_size")) and "img_size" not in arguments}
