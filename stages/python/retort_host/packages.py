"""Lists the packages of this Python, as `pip freeze` does."""

import importlib.metadata
import json
import platform
import re


def packages(request):
    """Returns {"version": Python's version, "packages": {name: version}}, sorted by name."""
    found = {}
    for one in importlib.metadata.distributions():
        try:
            name, version, commit = one.metadata["Name"], one.version, commit_of(one)
        except Exception:  # the package is damaged or partly removed
            continue
        if isinstance(name, str) and isinstance(version, str):  # the first package with a name is the one that is imported
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), version + commit)
    return {"version": platform.python_version(), "packages": dict(sorted(found.items()))}


def commit_of(distribution):
    """Returns the commit of a package installed from a repository, since its version may stay the same when its code changes."""
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    commit = origin.get("vcs_info", {}).get("commit_id", "")
    return f" ({commit})" if commit else ""
