#!/usr/bin/env python3
"""Adds scikit-learn's metrics of grades to the recorded classifications.

    python3 -m venv env && env/bin/pip install scikit-learn==1.9.1
    env/bin/python tests/golden/grades.py tests/recorded

classification_*.json  "mean_absolute_error" of the predicted classes as grades, in a line after "kappa_quadratic"
"""

import json
import pathlib
import re
import sys

from sklearn.metrics import mean_absolute_error

for file in sorted(pathlib.Path(sys.argv[1]).glob("classification_*.json")):
    text = re.sub(r' "mean_absolute_error": .*\n', "", file.read_text())
    recorded = json.loads(text)
    error = float(mean_absolute_error(recorded["truth"], recorded["predicted"]))
    file.write_text(re.sub(r'( "kappa_quadratic": .*\n)', rf'\1 "mean_absolute_error": {error!r},\n', text))
