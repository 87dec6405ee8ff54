"""The memory that a run would need."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .errors import Diagnostic


@dataclass(frozen=True)
class Alternative:
    """Another way to compute the same result, with the overrides that select it."""

    overrides: tuple[str, ...]
    exactness: str  # bit: the same bit for bit; exact: the same in exact arithmetic
    needed: int
    relative_flops: float
    refused: str | None  # why it cannot be used; None: it can be used


@dataclass(frozen=True)
class NodePlan:
    """The plan of one node, in bytes."""

    node: str
    device: str
    threads: int
    needed: int  # at the peak
    live: int  # part of `needed`: live tensors
    reserved: int  # part of `needed`: taken by the allocator, including `live`
    budget: int | None  # None: no limit is known
    budget_from: str
    fits: bool
    must_fit: bool  # False: the node runs even if the plan does not fit
    alternatives: tuple[Alternative, ...]
    details: dict[str, Any] = field(repr=False)  # the output of `retort plan --json`: schemas/output/plan.json

    def __str__(self) -> str:
        budget = "no limit is known" if self.budget is None else f"of {bytes_text(self.budget)} ({self.budget_from})"
        return f"{self.node} on {self.device} needs {bytes_text(self.needed)}, {budget}: {'fits' if self.fits else 'does not fit'}"


@dataclass(frozen=True)
class Plan:
    """The plans of a run's nodes. `plan["train"]` is the plan of the node train."""

    nodes: tuple[NodePlan, ...]
    diagnostics: tuple[Diagnostic, ...]  # why the plan does not fit

    @property
    def fits(self) -> bool:
        return not self.diagnostics

    @property
    def peak(self) -> NodePlan | None:
        """The plan of the node that needs the most memory; None: nothing was planned."""
        return max(self.nodes, key=lambda plan: plan.needed, default=None)

    def __getitem__(self, node: str) -> NodePlan:
        for plan in self.nodes:
            if plan.node == node:
                return plan
        raise KeyError(f"there is no plan for the node {node!r}, only for: {', '.join(plan.node for plan in self.nodes)}")

    def __str__(self) -> str:
        return "\n".join(map(str, [*self.nodes, *self.diagnostics]))


def node_plan(json: dict[str, Any]) -> NodePlan:
    names = ("node", "device", "threads", "needed", "live", "reserved", "budget", "budget_from", "fits", "must_fit")
    alternatives = tuple(
        Alternative(tuple(one["overrides"]), one["exactness"], one["needed"], one["relative_flops"], one.get("refused"))
        for one in json["alternatives"]
    )
    return NodePlan(alternatives=alternatives, details=json, **{name: json[name] for name in names})


def bytes_text(count: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"
