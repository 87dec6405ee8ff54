"""Finds out how the images for a network must be prepared."""


def pretrained_of(network, arguments):
    """Returns the input for which timm's weights were trained, from the network's pretrained_cfg; None if unknown."""
    config = getattr(network, "pretrained_cfg", None)
    if not arguments.get("pretrained") or not isinstance(config, dict):
        return None
    wanted = {key: list(config[key]) for key in ("input_size", "mean", "std") if config.get(key)}
    if len(wanted) < 3:
        return None
    return {**wanted, "fixed": bool(config.get("fixed_input_size")) and "img_size" not in arguments}
