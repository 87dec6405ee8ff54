#!/usr/bin/env python3
"""Records the losses, probabilities and labels of ordered classes in coral-pytorch.

    python3 -m venv env && env/bin/pip install torch==2.11.0 coral-pytorch==1.4.0
    env/bin/python tests/golden/ordinal.py tests/recorded

ordinal_loss.json   coral_loss, with and without importance weights, corn_loss, the gradients of the outputs; P(class > k) and
                    the labels of both; the initial biases of a CoralLayer
"""

import json
import pathlib
import sys

import coral_pytorch
import torch
from coral_pytorch.dataset import corn_label_from_logits, levels_from_labelbatch, proba_to_label
from coral_pytorch.layers import CoralLayer
from coral_pytorch.losses import coral_loss, corn_loss

CLASSES = 5

torch.manual_seed(3)
outputs = 2 * torch.randn(9, CLASSES - 1, dtype=torch.float64)
outputs[:4] = outputs[:4].sort(1, descending=True).values  # like CORAL's with ordered biases
labels = torch.tensor([0, 4, 1, 2, 0, 3, 4, 1, 0])
importance = torch.tensor([0.5, 2.0, 1.0, 0.25], dtype=torch.float64)
levels = levels_from_labelbatch(labels, CLASSES, dtype=torch.float64)


def variant(compute, **about):
    given = outputs.clone().requires_grad_()
    loss = compute(given)
    loss.backward()
    return {**about, "loss": loss.item(), "grad_outputs": given.grad.tolist()}


coral_above, corn_above = outputs.sigmoid(), outputs.sigmoid().cumprod(1)
recorded = {
    "case": {"kind": "ordinal_loss"},
    "versions": {"torch": torch.__version__, "coral-pytorch": coral_pytorch.__version__},
    "outputs": outputs.tolist(), "labels": labels.tolist(),
    "variants": [
        variant(lambda given: coral_loss(given, levels), kind="coral", importance_weights=[]),
        variant(lambda given: coral_loss(given, levels, importance), kind="coral",
                importance_weights=importance.tolist()),
        variant(lambda given: corn_loss(given, labels, CLASSES), kind="corn")],
    "heads": [
        {"kind": "coral", "above": coral_above.tolist(), "predicted": proba_to_label(coral_above).tolist()},
        {"kind": "corn", "above": corn_above.tolist(), "predicted": corn_label_from_logits(outputs).tolist()}],
    "start_biases": CoralLayer(3, CLASSES).coral_bias.tolist()}
(pathlib.Path(sys.argv[1]) / "ordinal_loss.json").write_text(json.dumps(recorded))
