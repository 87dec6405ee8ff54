"""Says which packages this Python has, as `pip freeze` does."""

import importlib.metadata
import json
import platform
import re


def packages(request):
    """{"version": of Python, "packages": {name: version}}, sorted by name."""
    found = {}
    for one in importlib.metadata.distributions():
        try:
            name, version, commit = one.metadata["Name"], one.version, commit_of(one)
        except Exception:  # a package that is damaged, or half removed
            continue
        if isinstance(name, str) and isinstance(version, str):  # the first of a name is the one that is imported
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), version + commit)
    return {"version": platform.python_version(), "packages": dict(sorted(found.items()))}


def commit_of(distribution):
    """For a package that pip has installed from a repository, whose version need not change with its code."""
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    commit = origin.get("vcs_info", {}).get("commit_id", "")
    return f" ({commit})" if commit else ""
