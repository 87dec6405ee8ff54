"""Expresses in the options of data.resize how a library resizes and crops the images for a network."""

import contextlib
import math

FILTERS = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")  # by Pillow's numbers
EXTRAS = ("do_pad", "do_thumbnail", "do_align_long_axis", "rescale_offset", "include_top")  # of transformers' image processors
SETTINGS = ("size", "resample", "do_resize", "do_rescale", "rescale_factor", "default_to_square", "do_center_crop", "crop_size",
            "crop_pct", "do_normalize", "image_mean", "image_std", *EXTRAS)
TIMM_DEFAULTS = {"interpolation": "bicubic", "crop_pct": 0.875, "crop_mode": "center"}


def resizing_of_timm(config):
    """Returns resizing() for a network's pretrained_cfg; empty if it does not say. Defaults are those of timm.data."""
    said = {key: config[key] for key in TIMM_DEFAULTS if config.get(key) is not None}
    if not said:
        return {}
    said = {**TIMM_DEFAULTS, **said}
    mode, share = said["crop_mode"], said["crop_pct"]
    lost = []
    if not is_number(share) or not 0 < share <= 1:
        lost.append(f"crop_pct {share}")
        share = 1.0
    if mode == "squash" and share < 1:
        lost.append(f"crop_mode squash with crop_pct {share}")
        share = 1.0
    elif mode not in ("squash", "center"):
        lost.append(f"crop_mode {mode}")
    return resizing(said["interpolation"], share, "round", mode == "squash", lost)


def resizing_of_torchvision(preset):
    """Returns resizing() for the transforms of torchvision's weights; empty if they are not for images."""
    crop, shortest = one_side(getattr(preset, "crop_size", None)), one_side(getattr(preset, "resize_size", None))
    if crop is None or shortest is None:
        return {}
    share, lost = share_of(crop, shortest)
    filter_name = getattr(preset.interpolation, "value", preset.interpolation)
    if getattr(preset, "antialias", True) is False:
        lost.append("antialias False")
    return resizing(filter_name, share, "round", False, lost)


def resizing_of_transformers(config):
    """Returns resizing() for a preprocessor_config.json with its defaults (with_defaults()); empty if it does not say."""
    kind, size, number = kind_of(config), config.get("size"), config.get("resample")
    if not isinstance(size, (dict, int)) or number is None:
        return {}
    name = FILTERS[number] if isinstance(number, int) and 0 <= number < len(FILTERS) else f"resample {number}"
    lost = [f"{key} false" for key in ("do_resize", "do_rescale") if config.get(key) is False]
    lost += [f"{key} true" for key in EXTRAS if config.get(key)]
    if is_number(factor := config.get("rescale_factor")) and not math.isclose(factor, 1 / 255, rel_tol=1e-6):
        lost.append(f"rescale_factor {factor}")
    side = one_side(size)
    shortest = size.get("shortest_edge") if isinstance(size, dict) else None
    if isinstance(size, int) and config.get("default_to_square") is False:
        shortest = size
    crop = one_side(config.get("crop_size")) if config.get("do_center_crop") else None
    if share := config.get("crop_pct"):
        large = shortest or side
        if kind.startswith("ConvNext"):
            if large >= 384:
                return resizing(name, 1.0, "floor", True, lost)
            crop = large
        shortest = int(large / share)
    if shortest and kind.startswith("Levit"):
        shortest = int(256 / 224 * shortest)
    if not shortest:
        if crop not in (None, side):
            lost.append(f"a center crop of {crop} from {side} by {side} pixels")
        return resizing(name, 1.0, "floor", True, lost)
    if crop is None:
        lost.append("size.shortest_edge without a center crop")
    fraction, too_large = share_of(crop or shortest, shortest)
    return resizing(name, fraction, "floor", False, lost + too_large)


def resizing(interpolation, share, offset, is_squashed, lost):
    """Returns "resize", with the options of data.resize, and "lost": what these options cannot express, in short phrases."""
    if interpolation not in ("bicubic", "bilinear"):
        lost = [f"interpolation {interpolation}", *lost]
        interpolation = "bicubic"
    shape = "square" if is_squashed else "shortest_side"
    options = {"interpolation": interpolation, "crop_fraction": float(share), "crop_offset": offset, "shape": shape}
    return {"resize": options, "lost": lost}


def share_of(crop, shortest):
    """Returns the shortest decimal fraction with floor(crop / fraction) == shortest, and what cannot be expressed."""
    if crop > shortest:
        return 1.0, [f"a center crop of {crop} from {shortest} pixels"]
    for digits in range(2, 18):
        share = round(crop / shortest, digits)
        if 0 < share <= 1 and math.floor(crop / share) == shortest:
            return share, []
    return math.nextafter(crop / shortest, 0), []


def with_defaults(config):
    """Returns a preprocessor_config.json, with the defaults of transformers' image processor where it is silent."""
    import transformers

    defaults = {}
    with contextlib.suppress(ImportError, AttributeError):  # it needs another package, or does not exist
        processor = getattr(transformers, kind_of(config).replace("FeatureExtractor", "ImageProcessor"))
        defaults = {name: getattr(processor, name) for name in SETTINGS if getattr(processor, name, None) is not None}
    return {**defaults, **config}


def kind_of(config):
    return str(config.get("image_processor_type") or config.get("feature_extractor_type"))


def one_side(size):
    """Returns the width of a square size, which may be a number, a list or a mapping; None for others."""
    if isinstance(size, dict):
        size = (size.get("height"), size.get("width"))
    sides = list(size) if isinstance(size, (list, tuple)) else [size]
    return sides[0] if len(set(sides)) == 1 and isinstance(sides[0], int) else None


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)
