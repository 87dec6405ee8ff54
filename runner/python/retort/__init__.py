"""Retort from Python: `retort.run("classify", {"data.root": "photos"})`. See docs/python.md.

The program `retort` does all the work; this package reads its JSON output. It needs only Python.
"""
from .errors import (
    DataError,
    DeviceError,
    Diagnostic,
    InternalError,
    Interrupted,
    MissingError,
    Note,
    OutputError,
    ProgramError,
    RecipeError,
    RetortError,
    RetortWarning,
    RunFailed,
    RunStopped,
    TrialsFailed,
    UsageError,
)
from .memory_plan import Alternative, NodePlan, Plan
from .overrides import Choice, choice
from .record import Confusion, MetricPoint
from .run_folder import Export, ImagePrediction, Node, Run, Summary
from .sweep_folder import Means, Objective, Sweep, Trial
from .table import Table
from .verbs import RunRow, Validation, plan, run, runs, sweep, validate

__all__ = [
    "Alternative", "Choice", "Confusion", "DataError", "DeviceError", "Diagnostic", "Export", "ImagePrediction",
    "InternalError", "Interrupted", "Means", "MetricPoint", "MissingError", "Node", "NodePlan", "Note", "Objective", "OutputError",
    "Plan", "ProgramError", "RecipeError", "RetortError", "RetortWarning", "Run", "RunFailed", "RunRow", "RunStopped",
    "Summary", "Sweep", "Table", "Trial", "TrialsFailed", "UsageError", "Validation", "choice", "plan", "run",
    "runs", "sweep", "validate",
]  # fmt: skip
