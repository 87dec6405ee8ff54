"""The peer of clip_bench: the same CLIP, weights, pairs and optimizer in open_clip, in open_clip's own training loop."""

import json
import sys
import time
from pathlib import Path

import torch
from open_clip.loss import ClipLoss
from open_clip.model import CLIP, CLIPTextCfg, CLIPVisionCfg
from safetensors.torch import load_file

from blocks import blocks, report

TOWERS = {"vision_model": "visual.transformer", "text_model": "transformer"}
LAYER = {"self_attn.out_proj": "attn.out_proj", "layer_norm1": "ln_1", "layer_norm2": "ln_2", "mlp.fc1": "mlp.c_fc", "mlp.fc2": "mlp.c_proj"}
OTHERS = {
    "logit_scale": "logit_scale",
    "vision_model.embeddings.class_embedding": "visual.class_embedding",
    "vision_model.embeddings.patch_embedding.weight": "visual.conv1.weight",
    "vision_model.embeddings.position_embedding.weight": "visual.positional_embedding",
    "vision_model.pre_layrnorm": "visual.ln_pre",
    "vision_model.post_layernorm": "visual.ln_post",
    "text_model.embeddings.token_embedding.weight": "token_embedding.weight",
    "text_model.embeddings.position_embedding.weight": "positional_embedding",
    "text_model.final_layer_norm": "ln_final",
}


def renamed(weights):
    """Our weights under open_clip's names, where queries, keys and values are one matrix."""
    named = {"visual.proj": weights.pop("visual_projection.weight").T, "text_projection": weights.pop("text_projection.weight").T}
    for name, value in weights.items():
        module, _, last = name.rpartition(".")
        if ".encoder.layers." not in name:
            named[OTHERS.get(name) or f"{OTHERS[module]}.{last}"] = value
            continue
        tower, _, rest = module.partition(".encoder.layers.")
        number, _, layer = rest.partition(".")
        block = f"{TOWERS[tower]}.resblocks.{number}"
        if layer in LAYER:
            named[f"{block}.{LAYER[layer]}.{last}"] = value
        elif layer == "self_attn.q_proj":
            joined = [weights[f"{tower}.encoder.layers.{number}.self_attn.{letter}_proj.{last}"] for letter in "qkv"]
            named[f"{block}.attn.in_proj_{last}"] = torch.cat(joined)
    return named


def network_of(options, weights):
    image, text = options["model"]["image"], options["model"]["text"]
    network = CLIP(
        options["model"]["projection_dim"],
        CLIPVisionCfg(
            layers=image["num_hidden_layers"],
            width=image["hidden_size"],
            head_width=image["hidden_size"] // image["num_attention_heads"],
            mlp_ratio=image["intermediate_size"] / image["hidden_size"],
            patch_size=image["patch_size"],
            image_size=options["image_size"],
        ),
        CLIPTextCfg(
            context_length=options["model"]["tokenizer"]["context_length"],
            vocab_size=len(weights["text_model.embeddings.token_embedding.weight"]),
            width=text["hidden_size"],
            heads=text["num_attention_heads"],
            layers=text["num_hidden_layers"],
            mlp_ratio=text["intermediate_size"] / text["hidden_size"],
        ),
        quick_gelu=True,
    )
    network.load_state_dict(renamed(weights))
    return network.train()


def whole_batch(network, loss_of, images, tokens):
    loss = loss_of(*network(images, tokens))
    loss.backward()
    return loss.item()


def in_parts(network, loss_of, images, tokens, parts):
    """open_clip's --accum-freq: all embeddings without a graph, then each part again with one, in the loss of the whole batch."""
    cut = list(zip(images.chunk(parts), tokens.chunk(parts)))
    with torch.no_grad():
        cached = [network(*part)[:2] for part in cut]
    for place, part in enumerate(cut):
        of_images, of_texts, scale = network(*part)
        together = [torch.cat([*(one[which] for one in cached[:place]), own, *(one[which] for one in cached[place + 1 :])]) for which, own in enumerate((of_images, of_texts))]
        loss = loss_of(*together, scale)
        loss.backward()
    return loss.item()


def main():
    options = json.loads(sys.argv[1])
    torch.set_num_threads(options["threads"])
    folder = Path(options["folder"])
    network, loss_of = network_of(options, load_file(folder / "weights.safetensors")), ClipLoss()
    pairs = load_file(folder / "pairs.safetensors")
    rule = options["optimizer"]
    optimizer = torch.optim.AdamW(
        network.parameters(), lr=rule["learning_rate"], betas=tuple(rule["betas"]), eps=rule["epsilon"], weight_decay=rule["weight_decay"])
    report({"ready": True})
    for block in blocks():
        losses, seconds = [], []
        for _ in range(block):
            began = time.perf_counter()
            images = torch.stack(pairs["images"].unbind())  # as a data loader collates them
            optimizer.zero_grad()
            if options["parts"] > 1:
                losses.append(in_parts(network, loss_of, images, pairs["tokens"], options["parts"]))
            else:
                losses.append(whole_batch(network, loss_of, images, pairs["tokens"]))
            optimizer.step()
            seconds.append(time.perf_counter() - began)
        report({"seconds": seconds, "losses": losses})


main()
