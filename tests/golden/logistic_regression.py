#!/usr/bin/env python3
"""Records the solutions of scikit-learn's LogisticRegression, for tests/recorded.

    python tests/golden/logistic_regression.py tests/recorded      with scikit-learn, for example 1.9
"""

import json
import pathlib
import sys

import numpy
import sklearn
from sklearn.linear_model import LogisticRegression


def objective(features, labels, weight, bias, strength):
    """The objective that scikit-learn minimizes, divided by the number of samples, and its gradient."""
    rows = len(labels)
    logits = features @ weight.T + bias
    logits -= logits.max(1, keepdims=True)
    logs = logits - numpy.log(numpy.exp(logits).sum(1, keepdims=True))
    loss = -logs[numpy.arange(rows), labels].mean() + strength / (2 * rows) * (weight**2).sum()
    residual = numpy.exp(logs)
    residual[numpy.arange(rows), labels] -= 1
    return loss, residual.T @ features / rows + strength / rows * weight, residual.mean(0)


def record(folder, name, rows, width, classes, strength):
    draw = numpy.random.default_rng(rows)
    centers = draw.normal(size=(classes, width))
    labels = numpy.arange(rows) % classes
    features = numpy.round(centers[labels] + draw.normal(size=(rows, width)), 2)
    arguments = {"C": 1 / strength, "tol": 1e-7, "max_iter": 10000}
    fit = LogisticRegression(solver="lbfgs", **arguments).fit(features, labels)
    loss, by_weight, by_bias = objective(features, labels, fit.coef_, fit.intercept_, strength)
    case = {
        "case": {"name": name, "kind": "logistic_regression", "strength": strength, "classes": classes, "kwargs": arguments},
        "versions": {"sklearn": sklearn.__version__, "numpy": numpy.__version__},
        "features": features.tolist(),
        "labels": labels.tolist(),
        "weight": fit.coef_.tolist(),
        "bias": fit.intercept_.tolist(),
        "loss": loss,
        "gradient_norm": float(numpy.sqrt((by_weight**2).sum())),
        "bias_gradient_norm": float(numpy.sqrt((by_bias**2).sum())),
    }
    (folder / f"{name}.json").write_text(json.dumps(case, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    record(target, "logistic_regression_weak", 60, 5, 3, 0.01)
    record(target, "logistic_regression", 48, 4, 4, 1.0)
    record(target, "logistic_regression_strong", 40, 8, 5, 100.0)
