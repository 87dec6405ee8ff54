#!/usr/bin/env python3
"""Records the losses and metrics of regression in other libraries.

    python3 -m venv env && env/bin/pip install torch==2.11.0 scikit-learn==1.9.1
    env/bin/python tests/golden/regression.py tests/recorded

regression_loss.json      torch's MSELoss, L1Loss, HuberLoss and SmoothL1Loss, and the gradients of the outputs
regression_scores.json    scikit-learn's mean_absolute_error, root_mean_squared_error and r2_score for each target and as their mean,
                          StandardScaler's statistics, and the errors of DummyRegressor, which predicts the mean
"""

import json
import pathlib
import sys

import numpy
import sklearn
import torch
from sklearn import metrics
from sklearn.dummy import DummyRegressor
from sklearn.preprocessing import StandardScaler

TARGETS, SAMPLES = 3, 17


def losses():
    torch.manual_seed(5)
    start = 2 * torch.randn(6, TARGETS, dtype=torch.float64)
    target = 2 * torch.randn(6, TARGETS, dtype=torch.float64)
    target[0] = start[0]  # no error
    recorded = {"case": {"kind": "regression_loss"}, "versions": {"torch": torch.__version__},
                "outputs": start.tolist(), "target": target.tolist(), "variants": []}
    nn = torch.nn
    for kind, options, compute in [("mse", {}, nn.MSELoss()), ("l1", {}, nn.L1Loss()),
                                   ("huber", {"delta": 1.0}, nn.HuberLoss(delta=1.0)),
                                   ("huber", {"delta": 0.3}, nn.HuberLoss(delta=0.3)),
                                   ("smooth_l1", {"beta": 1.5}, nn.SmoothL1Loss(beta=1.5)),
                                   ("smooth_l1", {"beta": 0.0}, nn.SmoothL1Loss(beta=0.0))]:
        outputs = start.clone().requires_grad_()
        loss = compute(outputs, target)
        loss.backward()
        recorded["variants"].append({"kind": kind, **options, "loss": loss.item(), "grad_outputs": outputs.grad.tolist()})
    return recorded


def scores():
    draw = numpy.random.default_rng(7)
    scale, offset = numpy.array([1.0, 300.0, 0.01]), numpy.array([0.0, 7000.0, -3.0])
    train = draw.normal(size=(11, TARGETS)) * scale + offset
    truth = draw.normal(size=(SAMPLES, TARGETS)) * scale + offset
    predictions = truth + draw.normal(size=truth.shape) * scale / 2

    def errors(predicted):
        def each(compute):
            return {"each": compute(truth, predicted, multioutput="raw_values").tolist(),
                    "mean": float(compute(truth, predicted))}
        return {"mae": each(metrics.mean_absolute_error), "rmse": each(metrics.root_mean_squared_error),
                "r2": each(metrics.r2_score)}

    scaler = StandardScaler().fit(train)
    baseline = DummyRegressor().fit(train, train).predict(truth)
    return {"case": {"kind": "regression_scores"}, "versions": {"sklearn": sklearn.__version__},
            "train": train.tolist(), "truth": truth.tolist(), "predictions": predictions.tolist(),
            "mean": scaler.mean_.tolist(), "scale": scaler.scale_.tolist(),
            "errors": errors(predictions), "baseline": errors(baseline)}


for name, record in [("regression_loss.json", losses), ("regression_scores.json", scores)]:
    (pathlib.Path(sys.argv[1]) / name).write_text(json.dumps(record(), separators=(", ", ": ")) + "\n")
