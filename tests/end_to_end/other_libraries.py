#!/usr/bin/env python3
"""Exports to and imports from transformers, timm and peft, for tests.

  other_libraries.py predict FOLDER IMAGE...   predicts with the program in the README of an exported folder: prints a list of
      probabilities
  other_libraries.py features FOLDER IMAGE   prints the shape of AutoModel's output, and the classes of both loaders
  other_libraries.py write FOLDER    writes small models with these libraries, in every file format
  other_libraries.py compare A B     fails unless all tensors of the files or state dicts A and B are equal, bit for bit
"""
import json
import sys

import torch
from safetensors.torch import load_file


def predict(folder, *images):
    text = open(f"{folder}/README.md").read()
    program = text[text.index("```python\n") + len("```python\n"):text.rindex("```")]
    place = 'folder, photo = ".", "photo.jpg"'
    assert program.count(place) == 1, program
    rows = []
    for image in images:
        names = {}
        exec(program.replace(place, f"folder, photo = {folder!r}, {image!r}"), names)
        rows += names["probabilities"].tolist()
    print(json.dumps(rows))


def features(folder, image):
    from transformers import AutoImageProcessor, AutoModel
    from transformers.image_utils import load_image
    processor, model = AutoImageProcessor.from_pretrained(folder), AutoModel.from_pretrained(folder)
    hidden = model(**processor(load_image(image), return_tensors="pt")).last_hidden_state
    print(json.dumps([type(processor).__name__, type(model).__name__, list(hidden.shape)]))


def write(folder):
    import timm
    from peft import LoraConfig, get_peft_model
    from transformers import (CLIPVisionConfig, CLIPVisionModel, Dinov2WithRegistersConfig, Dinov2WithRegistersModel,
                              ViTConfig, ViTForImageClassification)
    shape = dict(hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, patch_size=8,
                 image_size=32)
    clip = CLIPVisionModel(CLIPVisionConfig(**shape))
    clip.save_pretrained(f"{folder}/clip")
    clip.save_pretrained(f"{folder}/clip_sharded", max_shard_size="50KB")
    torch.save(clip.state_dict(), f"{folder}/clip.pt")
    torch.save(clip.state_dict(), f"{folder}/clip_old.pth", _use_new_zipfile_serialization=False)
    ViTForImageClassification(ViTConfig(**shape, num_labels=3)).save_pretrained(f"{folder}/vit")
    of_dinov2 = {key: value for key, value in shape.items() if key != "intermediate_size"}
    Dinov2WithRegistersModel(Dinov2WithRegistersConfig(**of_dinov2, mlp_ratio=2, num_register_tokens=3)).save_pretrained(
        f"{folder}/dinov2")
    vit = timm.create_model("vit_base_patch16_224", img_size=32, patch_size=8, embed_dim=48, depth=2, num_heads=4,
                            mlp_ratio=2, num_classes=5)
    torch.save(vit.state_dict(), f"{folder}/timm_old.pth", _use_new_zipfile_serialization=False)
    torch.save({"state_dict": vit.state_dict(), "epoch": 3}, f"{folder}/timm.pth")
    adapted = get_peft_model(clip, LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"],
                                              init_lora_weights=False))
    adapted.save_pretrained(f"{folder}/adapter")


def tensors(path):
    return load_file(path) if path.endswith(".safetensors") else torch.load(path, weights_only=True)


def compare(a, b):
    a, b = tensors(a), tensors(b)
    a, b = a.get("state_dict", a), b.get("state_dict", b)
    # Tensors that only one side has are not compared: a head, or the prefix that transformers 5 omits.
    b = b | {name.removeprefix("vision_model."): tensor for name, tensor in b.items()}
    missing = [name for name in a if name not in b and not name.startswith(("head.", "classifier."))]
    other = [name for name in a if name in b and not name.startswith(("head.", "classifier."))
             and not torch.equal(a[name], b[name])]
    if missing or other:
        sys.exit(f"missing: {missing}, different values: {other}")
    print(f"{len(a)} tensors are the same")


def main():
    torch.manual_seed(0)
    command, *arguments = sys.argv[1:]
    if command == "write":
        write(*arguments)
    else:
        {"compare": compare, "predict": predict, "features": features}[command](*arguments)


if __name__ == "__main__":
    main()
