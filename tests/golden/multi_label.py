#!/usr/bin/env python3
"""Records the losses and metrics of multi-label classification in other libraries.

    python3 -m venv env && env/bin/pip install torch==2.11.0 torchvision==0.26.0 timm==1.0.31 scikit-learn==1.9.1
    env/bin/python tests/golden/multi_label.py tests/recorded

multi_label_loss.json     torch's BCEWithLogitsLoss, torchvision's sigmoid_focal_loss and timm's AsymmetricLossMultiLabel, each as
                          the mean over samples and labels, and the gradients of the logits
multi_label_scores.json   scikit-learn, on scores with ties and a label that no sample has; null means undefined. "threshold" is
                          the one in precision_recall_curve with the highest F1, the lowest if there are several; "curve" is
                          the highest precision at each recall in precision_recall_curve
Each file can be written if only its own libraries are installed.
"""

import json
import pathlib
import random
import sys

LABELS, SAMPLES = 4, 24


def write(folder, name, recorded):
    text = json.dumps(recorded, separators=(", ", ": "))
    (pathlib.Path(folder) / name).write_text(text + "\n")


def losses():
    import timm
    import torch
    import torchvision
    from timm.loss import AsymmetricLossMultiLabel
    from torchvision.ops import sigmoid_focal_loss

    torch.manual_seed(5)
    start = 3 * torch.randn(6, LABELS, dtype=torch.float64)
    start[0] = torch.tensor([-40.0, 40.0, -40.0, 40.0])  # extreme probabilities, right and wrong
    target = (torch.rand(6, LABELS, dtype=torch.float64) < 0.4).double()
    target[0] = torch.tensor([0.0, 1.0, 1.0, 0.0])
    pos_weight = torch.tensor([0.5, 1.0, 3.0, 8.0], dtype=torch.float64)
    smoothing = 0.2
    smoothed = target * (1 - smoothing) + smoothing / 2
    recorded = {"case": {"kind": "multi_label_loss", "smoothing": smoothing},
                "versions": {"torch": torch.__version__, "torchvision": torchvision.__version__, "timm": timm.__version__},
                "logits": start.tolist(), "target": target.tolist(), "pos_weight": pos_weight.tolist(), "variants": []}

    def add(kwargs, compute):
        logits = start.clone().requires_grad_()
        loss = compute(logits)
        loss.backward()
        recorded["variants"].append({**kwargs, "loss": loss.item(), "grad_logits": logits.grad.tolist()})

    bce = torch.nn.BCEWithLogitsLoss
    add({"kind": "binary_cross_entropy"}, lambda x: bce()(x, target))
    add({"kind": "binary_cross_entropy", "smoothed": True}, lambda x: bce()(x, smoothed))
    add({"kind": "binary_cross_entropy", "weighted": True}, lambda x: bce(pos_weight=pos_weight)(x, target))
    add({"kind": "binary_cross_entropy", "weighted": True, "smoothed": True},
        lambda x: bce(pos_weight=pos_weight)(x, smoothed))
    for alpha, gamma in [(0.25, 2.0), (-1, 1.5), (0.6, 0.0)]:
        add({"kind": "focal", "alpha": alpha, "gamma": gamma},
            lambda x: sigmoid_focal_loss(x, target, alpha=alpha, gamma=gamma, reduction="mean"))
    for negative, positive, clip in [(4.0, 1.0, 0.05), (2.0, 0.0, 0.0), (0.0, 0.0, 0.0), (3.0, 2.0, 0.3)]:
        loss = AsymmetricLossMultiLabel(gamma_neg=negative, gamma_pos=positive, clip=clip)
        add({"kind": "asymmetric", "gamma_negative": negative, "gamma_positive": positive, "clip": clip},
            lambda x: loss(x, target) / LABELS)  # the mean over samples of the sum over labels
    return recorded


def scores():
    import numpy
    import sklearn
    from sklearn import metrics

    draw = random.Random(7)
    logits = [[draw.randint(-6, 6) / 4 for _ in range(LABELS)] for _ in range(SAMPLES)]
    truth = [[int(draw.random() < share) for share in (0.5, 0.2, 0.0, 0.8)] for _ in range(SAMPLES)]
    x, y = numpy.array(logits), numpy.array(truth)
    probability = 1 / (1 + numpy.exp(-x))

    def per_label(compute):
        return [compute(label) if 0 < y[:, label].sum() else None for label in range(LABELS)]

    def threshold(label):
        precision, recall, thresholds = metrics.precision_recall_curve(y[:, label], probability[:, label])
        f1 = 2 * precision * recall / numpy.maximum(precision + recall, 1e-300)
        return float(thresholds[numpy.argmax(f1[:-1].round(12))])

    def curve(label):
        highest = {}
        for precision, recall in zip(*metrics.precision_recall_curve(y[:, label], x[:, label])[:2]):
            highest[float(recall)] = max(float(precision), highest.get(float(recall), 0))
        recalls = sorted(highest)
        return {"recall": recalls, "precision": [highest[recall] for recall in recalls]}

    chosen = per_label(threshold)
    predicted = (probability >= numpy.array([0.5 if one is None else one for one in chosen])).astype(int)
    averages = {}
    for average in ["micro", "macro"]:
        quality = metrics.precision_recall_fscore_support(y, predicted, average=average, zero_division=0)
        averages[average] = dict(zip(["precision", "recall", "f1"], map(float, quality[:3])))
    f1 = metrics.f1_score(y, predicted, average=None, zero_division=0)
    present = [label for label in range(LABELS) if y[:, label].any()]
    return {"case": {"kind": "multi_label_scores"}, "versions": {"sklearn": sklearn.__version__},
            "logits": logits, "truth": truth,
            "average_precision": per_label(lambda label: float(metrics.average_precision_score(y[:, label], x[:, label]))),
            "mean_average_precision": float(metrics.average_precision_score(y[:, present], x[:, present], average="macro")),
            "auc": per_label(lambda label: float(metrics.roc_auc_score(y[:, label], x[:, label]))),
            "curve": per_label(curve), "threshold": chosen, "f1": f1.tolist(), "average": averages,
            "hamming_loss": float(metrics.hamming_loss(y, predicted)),
            "subset_accuracy": float(metrics.accuracy_score(y, predicted))}


for name, record in [("multi_label_loss.json", losses), ("multi_label_scores.json", scores)]:
    try:
        write(sys.argv[1], name, record())
    except ModuleNotFoundError as missing:
        print(f"{name} is not written: {missing}", file=sys.stderr)
