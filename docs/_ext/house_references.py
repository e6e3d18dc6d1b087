"""References of docstrings, which name modules where things are, led to the public names under which they are shown.

What has no page, such as a module of the inside, is shown as code: tests/test_docs.py proves that it is there.
"""

from __future__ import annotations

import importlib
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment


def homes() -> dict[str, str]:
    """Where public things are defined: their public name."""
    found = {}
    for package in ("pm_dpgmm.bayes", "pm_dpgmm"):  # the front door last, as it counts
        for name, module in importlib.import_module(package)._PUBLIC.items():
            found[f"{package}.{module}.{name}"] = f"{package}.{name}"
    for name, module in importlib.import_module("verification")._HOMES.items():
        found[f"{module}.{name}"] = f"verification.{name}"
    return found


def public(target: str) -> str:
    """A full path, by the front door if there is one."""
    for home, name in HOMES.items():
        if target == home or target.startswith(f"{home}."):
            return name + target.removeprefix(home)
    return target


HOMES = homes()


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, contnode: nodes.Element) -> nodes.Node | None:
    """A link, or what was written; None, which is a warning, for what a page of ours gets wrong."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    scope = node.get("py:module")
    for path in (target, f"{scope}.{target}"):
        if (name := public(path)) != target:
            again = node.copy()
            again["reftarget"] = name
            domain = env.domains.python_domain
            found = domain.resolve_xref(env, node["refdoc"], app.builder, node["reftype"], name, again, contnode)
            if found is not None:
                return found
    return contnode if node["refdoc"].startswith("docs/api/") else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Listen to references that lead nowhere yet."""
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
