"""Imports follow the direction of the design; the audit core stands alone; importing the package stays light."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A module may import modules of its own layer and of earlier ones.
LAYERS = [
    [
        "_arguments",
        "_blocks",
        "_version",
        "cache_folders",
        "feature_names",
        "frozen_values",
        "pickling",
        "progress_bar",
    ],
    [
        "lifted_loss",
        "pass_table_loss",
        "privacy_loss",
        "privacy_loss_values",
        "gaussian_curve",
        "worst_pair",
        "privacy_loss_file",
        "privacy",
        "mixture",
        "noise",
        "files",
        "untrusted_json",
        "exit_status",
        "posterior_draws",
        "background",
    ],
    ["total_variation", "geometry", "lifted_distance", "mechanisms"],
    [
        "count_likelihood",
        "em_statistics",
        "count_law",
        "noncentral_wishart",
        "sampling_error",
        "mask_law",
        "local_responses",
        "cell_law",
        "grid_fit",
        "slice_model",
        "slice_fit",
        "characteristic",
        "evidence_checks",
        "evidence",
        "sketch_model",
        "sketch_fit",
        "sketch_library",
        "sketch_search",
        "sketch_start",
        "sketch_post",
        "sketch_choice",
        "misfit",
        "caveats",
        "count_caveats",
        "phantoms",
        "agreement",
        "lifted_friends",
        "lifted_alignment",
        "fits",
        "lifting",
        "batched_em_blocks",
        "batched_em_kernel",
        "batched_em_starts",
        "batched_em_search",
        "batched_em",
        "barycentre",
        "populous_design",
        "record_columns",
        "record_files",
        "records",
        "record_blocks",
        "learners",
        "learner_rehearsal",
        "learner_process",
        "learner_pool",
        "compilation",
        "cells",
        "univariate_moments",
        "projected_moments",
        "moment_learner",
        "methods",
        "ledger",
        "laplace",
        "uncertainty",
        "sites",
    ],
    [
        "card",
        "release_pymc",
        "release_checks",
        "released",
        "release",
        "fit_check",
        "count_selection",
        "selection",
        "combining",
        "checkpoint",
        "fit",
        "estimator",
    ],
    [
        "bayes",
        "plots",
        "plan_agreement",
        "plan_result",
        "plan_trials",
        "plan_populous",
        "planning",
        "cli_commands",
        "cli",
        "demo",
    ],
]
LEVEL = {name: level for level, layer in enumerate(LAYERS) for name in layer}
# The Release offers these as methods; it imports them inside the method and nowhere else.
DELEGATIONS = {("release_pymc", "bayes"), ("release", "plots"), ("selection", "plots")}
AUDIT_CORE = [
    "audit", "audit_result", "detection_limit", "events", "outputs", "score_features", "scores", "references",
    "neighbours", "_checks", "guessing", "fixed_size", "betting", "sequential", "bits", "certificate", "certificate_writing", "multiplicity",
    "candidates", "search", "shrink", "pytest_plugin", "profile", "profile_bounds", "profile_points", "profile_result",
    "ratio_calibration", "parts", "repeated", "repeats", "bit_planes", "screening",
    "given_data", "data_digest", "column_pairs", "phases", "alike",
]  # fmt: skip
LONGEST = 400  # lines; a module past 300 is asked to split, past 400 it must


def imports(tree):
    """(imported module, whether inside a function) for every import of a module."""
    inside = {
        id(node) for function in ast.walk(tree) if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }  # fmt: skip
    type_only = {
        id(node) for block in ast.walk(tree) if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for node in ast.walk(block)
    }  # fmt: skip
    for node in ast.walk(tree):
        if id(node) in type_only:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module in ("pm_dpgmm", "verification"):
                yield from ((f"{node.module}.{alias.name}", id(node) in inside) for alias in node.names)
            else:
                yield node.module, id(node) in inside


def part(module):
    """Name of the layer's member that a module of the package belongs to."""
    return module.split(".")[1]


def violations(module, source):
    """Imports of ``module`` (dotted, in pm_dpgmm) that go against the direction."""
    me = part(module)
    if me not in LEVEL:
        return [f"{module} is in no layer"]
    found = []
    for target, inside in imports(ast.parse(source)):
        if not target.startswith("pm_dpgmm."):
            if target.split(".")[0] == "verification" and me != "demo":
                found.append(f"{module} imports {target}")
            continue
        if target.split(".")[1] == "__version__":
            continue
        other = part(target)
        if LEVEL.get(other, len(LAYERS)) > LEVEL[me] and not (inside and (me, other) in DELEGATIONS):
            found.append(f"{module} imports {target}")
    return found


def modules(package):
    for path in sorted((ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        yield name.removesuffix(".__init__"), path


def test_imports_follow_the_direction_of_the_design():
    found = [
        line for name, path in modules("pm_dpgmm") if name != "pm_dpgmm" for line in violations(name, path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "module, source",
    [
        ("pm_dpgmm.noise", "from pm_dpgmm.mechanisms.gaussian import gaussian_mechanism"),
        ("pm_dpgmm.mechanisms.masks", "import pm_dpgmm.release"),
        ("pm_dpgmm.mixture", "def f():\n    from pm_dpgmm import fit"),
        ("pm_dpgmm.release", "from pm_dpgmm.bayes import priors"),
        ("pm_dpgmm.methods.histogram", "def f():\n    from pm_dpgmm.plots import plot_release"),
        ("pm_dpgmm.fit", "from verification import audit"),
        ("pm_dpgmm.utils", "import numpy"),
    ],
)
def test_a_planted_violation_is_found(module, source):
    assert violations(module, source)


def test_allowed_imports_are_not_violations():
    assert not violations("pm_dpgmm.release_pymc", "def f(self):\n    from pm_dpgmm.bayes import priors")
    assert not violations("pm_dpgmm.fit", "from pm_dpgmm.release import Release")


def core_violations(source):
    return [
        target for target, _ in imports(ast.parse(source))
        if target.split(".")[0] == "pm_dpgmm"
        or (target.split(".")[0] == "verification" and target.split(".")[1] not in AUDIT_CORE)
    ]  # fmt: skip


def test_the_audit_core_imports_nothing_of_the_package():
    for name in AUDIT_CORE:
        assert core_violations((ROOT / "verification" / f"{name}.py").read_text()) == []
    assert core_violations("from pm_dpgmm.noise import discrete_laplace")
    assert core_violations("def f():\n    import verification.targets")


def test_hypothesis_loads_only_where_a_strategy_is_searched():
    """It takes half a second: an audit does without."""
    for name in AUDIT_CORE:
        if name != "neighbours":
            found = imports(ast.parse((ROOT / "verification" / f"{name}.py").read_text()))
            assert [target for target, inside in found if not inside and target.split(".")[0] == "hypothesis"] == []


# Named unlike their modules, or brought by a dependency whose own interface they are.
DISTRIBUTIONS = {
    "sklearn": "scikit-learn", "threadpoolctl": "scikit-learn", "dp_accounting": "dp-accounting", "pytensor": "pymc", "xarray": "arviz",
    "llvmlite": "numba",
}  # fmt: skip
OPTIONAL = {"pytest": {"verification.pytest_plugin"}}  # loaded by pytest alone


def undeclared(module, source, declared):
    """Third-party imports of ``module`` outside functions that no dependency of an installation brings."""
    names = {target.split(".")[0] for target, inside in imports(ast.parse(source)) if not inside}
    third = names - set(sys.stdlib_module_names) - {"pm_dpgmm", "verification"}
    return sorted(n for n in third if DISTRIBUTIONS.get(n, n) not in declared and module not in OPTIONAL.get(n, ()))


def test_a_plain_installation_brings_every_package_that_is_imported():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = {re.split(r"[<>=!~\[; ]", line)[0] for line in project["dependencies"]}
    for package in ("pm_dpgmm", "verification"):
        for name, path in modules(package):
            assert undeclared(name, path.read_text(), declared) == [], name
    without = declared - {"hypothesis"}
    claims = [path for name, path in modules("verification") if name.startswith("verification.claims.")]
    assert any(undeclared("verification.claims", path.read_text(), without) == ["hypothesis"] for path in claims)


def test_only_noise_draws_for_a_release():
    """Random numbers elsewhere come from an explicit generator: simulation, starting points, plots."""
    allowed = {"pm_dpgmm.noise", "pm_dpgmm.learners"}  # a learner gets seeded global streams of its own
    for name, path in modules("pm_dpgmm"):
        targets = {target.split(".")[0] for target, _ in imports(ast.parse(path.read_text()))}
        if name not in allowed:
            assert not targets & {"opendp", "secrets", "random"}, name


def inside_pymc(source):
    """Imports from below ``pymc``, which PyMC may move without notice."""
    return [target for target, _ in imports(ast.parse(source)) if target.startswith("pymc.")]


def test_one_module_knows_the_inside_of_pymc():
    for name, path in modules("pm_dpgmm"):
        if name != "pm_dpgmm.bayes.pymc_compat":
            assert inside_pymc(path.read_text()) == [], name
    assert inside_pymc("def f():\n    from pymc.step_methods.compound import BlockedStep")


def test_modules_stay_short():
    too_long = {
        name: lines for package in ("pm_dpgmm", "verification") for name, path in modules(package)
        if (lines := len(path.read_text().splitlines())) > LONGEST
    }  # fmt: skip
    assert too_long == {}


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()


def test_importing_the_package_loads_neither_pymc_nor_matplotlib():
    loaded = run("import sys, pm_dpgmm; print(*sys.modules)")
    assert not {"pymc", "pytensor", "arviz", "matplotlib", "dp_accounting", "statsmodels"} & set(loaded)
    loaded = run("import sys, pm_dpgmm as dpg; dpg.fit_gmm, dpg.Release, dpg.Mixture; print(*sys.modules)")
    assert not {"pymc", "pytensor", "arviz", "matplotlib"} & set(loaded)


def test_the_pytest_plugin_loads_nothing_that_pytest_does_not():
    """It is imported in every pytest run of whoever has the package installed."""
    loaded = run("import sys, verification.pytest_plugin; print(*sys.modules)")
    assert not {"numpy", "scipy", "sklearn", "hypothesis", "pm_dpgmm"} & set(loaded)


@pytest.mark.parametrize(
    "first", ["", "import verification.audit", "from verification.audit import audit", "import verification.search"]
)
def test_audit_is_the_function_whatever_was_imported_before(first):
    code = "from verification import AuditResult, audit; import verification as v"
    shown = "audit is v.audit is sys.modules['verification.audit'].audit, v.AuditResult is AuditResult"
    assert run(f"import sys\n{first}\n{code}\nprint({shown}, 'AuditResult' in dir(v))") == ["True"] * 3
    assert run(f"{first}\nfrom verification import *\nprint(type(audit).__name__)") == ["function"]


def test_every_public_name_loads():
    import pm_dpgmm as dpg

    for name in dpg.__all__:
        assert getattr(dpg, name) is not None
    assert set(dir(dpg)) == set(dpg.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = dpg.nothing
