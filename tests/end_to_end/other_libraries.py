#!/usr/bin/env python3
"""transformers, timm and peft, for the tests of what goes out to them and what comes from them.

  other_libraries.py predict JOBS    what images show by exported folders: prints a list of probabilities for each job.
      JOBS is JSON, a list of {"kind": "merged" or "adapter", "folder", "base" (of an adapter: the merged export of a run
      that has added nothing), "library": "clip", "vit" or "timm", "images": [FILE...], "mean", "std"}
  other_libraries.py write FOLDER    small models as the libraries save them, in every form that files have
  other_libraries.py compare A B     fails unless all tensors of the file or state dict A are those of B, bit for bit
"""
import json
import sys

import numpy
import torch
from PIL import Image
from safetensors.torch import load_file


def pixels(job):
    images = [numpy.asarray(Image.open(file).convert("RGB"), dtype=numpy.float32) / 255 for file in job["images"]]
    mean, std = (torch.tensor(job[key]).view(1, 3, 1, 1) for key in ("mean", "std"))
    return (torch.tensor(numpy.stack(images)).permute(0, 3, 1, 2) - mean) / std


def whole_model(library, folder):
    if library == "clip":
        from transformers import CLIPVisionModel
        return CLIPVisionModel.from_pretrained(folder)
    if library == "vit":
        from transformers import ViTForImageClassification
        return ViTForImageClassification.from_pretrained(folder)
    import timm
    return timm.create_model(f"local-dir:{folder}", pretrained=True)


def logits(job):
    """Of an adapter: of its base, a merged export of a run without training, with the adapter that peft attaches."""
    adapter = job["kind"] == "adapter"
    model = whole_model(job["library"], job["base"] if adapter else job["folder"]).eval()
    if adapter:
        from peft import PeftModel
        model = PeftModel.from_pretrained(model, job["folder"]).eval()
    x = pixels(job)
    if job["library"] == "clip":
        features = model(pixel_values=x).pooler_output
    elif job["library"] == "vit":
        inner = model.base_model.model if adapter else model
        features = inner.vit(pixel_values=x).last_hidden_state[:, 0] if adapter else None
        if not adapter:
            return model(pixel_values=x).logits
    else:
        if not adapter:
            return model(x)
        inner = model.base_model.model
        features = inner.forward_head(inner.forward_features(x), pre_logits=True)
    head = load_file(f"{job['folder']}/head.safetensors")
    return features @ head["weight"].T + head["bias"]


def write(folder):
    import timm
    from peft import LoraConfig, get_peft_model
    from transformers import CLIPVisionConfig, CLIPVisionModel, ViTConfig, ViTForImageClassification
    shape = dict(hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, patch_size=8,
                 image_size=32)
    clip = CLIPVisionModel(CLIPVisionConfig(**shape))
    clip.save_pretrained(f"{folder}/clip")
    clip.save_pretrained(f"{folder}/clip_sharded", max_shard_size="50KB")
    torch.save(clip.state_dict(), f"{folder}/clip.pt")
    torch.save(clip.state_dict(), f"{folder}/clip_old.pth", _use_new_zipfile_serialization=False)
    ViTForImageClassification(ViTConfig(**shape, num_labels=3)).save_pretrained(f"{folder}/vit")
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
    # What one of them has besides is not compared: a head, or the prefix that transformers 5 left out.
    b = b | {name.removeprefix("vision_model."): tensor for name, tensor in b.items()}
    missing = [name for name in a if name not in b and not name.startswith(("head.", "classifier."))]
    other = [name for name in a if name in b and not name.startswith(("head.", "classifier."))
             and not torch.equal(a[name], b[name])]
    if missing or other:
        sys.exit(f"missing: {missing}, other values: {other}")
    print(f"{len(a)} tensors are the same")


def main():
    torch.manual_seed(0)
    command, *arguments = sys.argv[1:]
    if command == "write":
        write(*arguments)
    elif command == "compare":
        compare(*arguments)
    else:
        with torch.no_grad():
            print(json.dumps([logits(job).softmax(1).tolist() for job in json.loads(arguments[0])]))


if __name__ == "__main__":
    main()
