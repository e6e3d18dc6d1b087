"""Imports follow the direction of the design; the audit core stands alone; modules stay short."""

import ast
import functools
import re
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# Each may import from those before it in the list, and from its own line where no circle of files arises.
DIRECTION = {
    "pm_dpgmm": [
        ["_arguments", "_blocks", "_version", "notebook_html", "posterior_draws", "progress_bar"],
        ["files"],
        ["mixture", "privacy"],
        ["records"],
        ["mechanisms", "learners"],
        ["methods"],
        ["tools"],
        ["bayes"],
        ["release"],
        ["fit", "estimator"],
        ["by_level"],
        ["planning"],
        ["demo"],
        ["cli"],
        ["__main__"],
    ],
    "verification": [
        ["_arguments"],
        ["neighbours", "references"],
        ["auditing"],
        ["profile", "multiplicity"],
        ["pytest_plugin", "proof_notes", "audit_command"],
        ["claims", "specimens"],
        ["targets"],
        ["trials"],
        ["calibration", "benchmarks", "fuzz"],
        ["reproductions"],
        ["report"],
        ["__main__"],
    ],
}
LEVEL = {
    f"{package}.{name}": level
    for package, lines in DIRECTION.items()
    for level, line in enumerate(lines)
    for name in line
}
# What audits anybody's mechanism knows nothing of this package's own.
AUDIT_CORE = ["_arguments", "neighbours", "references", "auditing", "profile", "multiplicity", "pytest_plugin"]
MOST_AT_THE_ROOT = 12  # modules; more belong into a folder
LONGEST = 400  # lines; a module past 300 is asked to split, past 400 it must


def imports(tree, inside=False):
    """(imported module or name in it, whether inside a function) for every import that is run."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((f"{node.module}.{alias.name}", inside) for alias in node.names)
        elif isinstance(node, ast.expr) or (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            continue  # no import is part of an expression
        else:
            yield from imports(node, inside or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))


@functools.cache
def imports_of(source):
    return list(imports(ast.parse(source)))


def modules(package):
    for path in sorted((ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        yield name.removesuffix(".__init__"), path


SOURCES = {name: path.read_text() for package in DIRECTION for name, path in modules(package)}


def imported(module, sources):
    """Modules of ``sources`` that ``module`` imports, also inside functions."""
    for target, _ in imports_of(sources[module]):
        found = target if target in sources else target.rpartition(".")[0]
        if found in sources and found != module:
            yield found


def room(module):
    """Package and folder, or module at its root."""
    return ".".join(module.split(".")[:2])


def violations(module, source):
    """Imports of ``module`` against the direction of its package, and of ``verification`` from below."""
    if room(module) not in LEVEL:
        return [f"{module} has no place in DIRECTION"]
    package = module.split(".")[0]
    found = []
    for target in imported(module, SOURCES | {module: source}):
        if target == package or target.split(".")[0] != package:
            # the package itself holds names that load on first use; the demo ends with an audit
            wrong = target.split(".")[0] == "verification" and package == "pm_dpgmm" and module != "pm_dpgmm.demo"
            wrong = wrong or (target == "pm_dpgmm" and package == "pm_dpgmm")
        else:
            wrong = LEVEL.get(room(target), 0) > LEVEL[room(module)]
        found += [f"{module} imports {target}"] * wrong
    return found


def circles(sources):
    """Groups of modules that import each other in a circle."""
    graph = {module: set(imported(module, sources)) - set(DIRECTION) for module in sources}
    while free := {module for module, targets in graph.items() if not targets & set(graph)}:
        graph = {module: targets for module, targets in graph.items() if module not in free}
    while unused := set(graph) - set().union(*graph.values()):  # what imports a circle is not in it
        graph = {module: targets for module, targets in graph.items() if module not in unused}
    return sorted(graph)


@pytest.mark.thorough
def test_imports_follow_the_direction_of_the_design():
    found = [line for name, source in SOURCES.items() if name not in DIRECTION for line in violations(name, source)]
    assert found == []


@pytest.mark.parametrize(
    "module, source",
    [
        ("pm_dpgmm.privacy.noise", "from pm_dpgmm.mechanisms.gaussian import gaussian_mechanism"),
        ("pm_dpgmm.mechanisms.masks", "import pm_dpgmm.release.release"),
        ("pm_dpgmm.mixture.mixture", "def f():\n    from pm_dpgmm import fit"),
        ("pm_dpgmm.mixture.mixture", "def f():\n    import pm_dpgmm as dpg"),
        ("pm_dpgmm.bayes.rows.density", "from pm_dpgmm.release.release import Release"),
        ("pm_dpgmm.methods.counts.histogram", "def f():\n    from pm_dpgmm.release.plots import plot_release"),
        ("pm_dpgmm.fit", "from verification import audit"),
        ("pm_dpgmm.utils", "import numpy"),
        ("verification.auditing.audit", "from verification.specimens import SPECIMENS"),
        ("verification.claims.registry", "def f():\n    from verification.report import page"),
    ],
)
def test_a_planted_violation_is_found(module, source):
    assert violations(module, source)


def test_allowed_imports_are_not_violations():
    assert not violations(
        "pm_dpgmm.release.parameter_methods", "def f(self):\n    from pm_dpgmm.bayes.prior import priors"
    )
    assert not violations("pm_dpgmm.fit", "from pm_dpgmm.release.release import Release")
    typed = "if TYPE_CHECKING:\n    from pm_dpgmm.release.release import Release"
    assert not violations("pm_dpgmm.bayes.rows.density", typed)


@pytest.mark.thorough
def test_no_modules_import_each_other_in_a_circle():
    assert circles(SOURCES) == []


@pytest.mark.thorough
@pytest.mark.parametrize("line", ["{}", "def f():\n    {}"])
def test_a_planted_circle_is_found(line):
    low, high = "pm_dpgmm.methods.sketch.model", "pm_dpgmm.methods.sketch.fit"
    planted = SOURCES[low] + "\n" + line.format(f"from {high} import fit_evidence")
    found = circles(SOURCES | {low: planted})
    assert {low, high} <= set(found) and "pm_dpgmm.fit" not in found


def test_few_modules_stand_at_the_root():
    for package in DIRECTION:
        here = [path for path in (ROOT / package).glob("*.py") if path.name != "__init__.py"]
        assert len(here) <= MOST_AT_THE_ROOT


def core_violations(source):
    return [
        target
        for target, _ in imports_of(source)
        if target.split(".")[0] == "pm_dpgmm"
        or (
            target.split(".")[0] == "verification" and target.split(".")[1] not in [*AUDIT_CORE, "audit", "AuditResult"]
        )
    ]


def core():
    return {name: source for name, source in SOURCES.items() if room(name) in {f"verification.{n}" for n in AUDIT_CORE}}


def test_the_audit_core_imports_nothing_of_the_package():
    assert len(core()) > len(AUDIT_CORE)
    for source in core().values():
        assert core_violations(source) == []
    assert core_violations("from pm_dpgmm.privacy.noise import discrete_laplace")
    assert core_violations("def f():\n    import verification.targets")


def test_hypothesis_loads_only_where_a_strategy_is_searched():
    """It takes half a second: an audit does without."""
    for name, source in core().items():
        if name != "verification.neighbours":
            found = imports_of(source)
            assert [target for target, inside in found if not inside and target.split(".")[0] == "hypothesis"] == []


# Named unlike their modules, or brought by a dependency whose own interface they are.
DISTRIBUTIONS = {
    "sklearn": "scikit-learn",
    "threadpoolctl": "scikit-learn",
    "dp_accounting": "dp-accounting",
    "pytensor": "pymc",
    "xarray": "arviz",
    "llvmlite": "numba",
}
OPTIONAL = {"pytest": {"verification.pytest_plugin"}}  # loaded by pytest alone


def undeclared(module, source, declared):
    """Third-party imports of ``module`` outside functions that no dependency of an installation brings."""
    names = {target.split(".")[0] for target, inside in imports_of(source) if not inside}
    third = names - set(sys.stdlib_module_names) - {"pm_dpgmm", "verification"}
    return sorted(n for n in third if DISTRIBUTIONS.get(n, n) not in declared and module not in OPTIONAL.get(n, ()))


@pytest.mark.thorough
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
    allowed = {
        "pm_dpgmm.privacy.noise",
        "pm_dpgmm.privacy.device_noise",  # of a person's own device
        "pm_dpgmm.learners.subsets",  # a learner gets seeded global streams of its own
    }
    for name, path in modules("pm_dpgmm"):
        source = path.read_text()
        targets = {target.split(".")[0] for target, _ in imports_of(source)}
        if name not in allowed:
            assert not targets & {"opendp", "secrets", "random"} and "urandom" not in source, name


def inside_pymc(source):
    """Imports from below ``pymc``, which PyMC may move without notice."""
    return [target for target, _ in imports_of(source) if target.startswith("pymc.")]


def test_one_module_knows_the_inside_of_pymc():
    for name, path in modules("pm_dpgmm"):
        if name != "pm_dpgmm.bayes.pymc_compat":
            assert inside_pymc(path.read_text()) == [], name
    assert inside_pymc("def f():\n    from pymc.step_methods.compound import BlockedStep")


def test_modules_stay_short():
    too_long = {
        name: lines
        for package in ("pm_dpgmm", "verification")
        for name, path in modules(package)
        if (lines := len(path.read_text().splitlines())) > LONGEST
    }
    assert too_long == {}


# ------------------------------------------------------------------ the tests themselves
def borrowed(source):
    """Test modules that a test module imports: what two of them need has a module in ``tests/builders``."""
    return [
        target
        for target, _ in imports_of(source)
        if target.startswith("tests.") and any(part.startswith("test_") for part in target.split(".")[1:])
    ]


def dotted_patches(source):
    """Lines that patch what a string names: a renamed module or attribute is then found when the test is run, or never."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and (patches_by_name(node.func) and node.args and isinstance(node.args[0], (ast.Constant, ast.JoinedStr)))
    ]


def patches_by_name(function):
    """``monkeypatch.setattr`` and ``delattr``, ``mock.patch`` and ``patch`` itself, but not ``patch.object``."""
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in {"setattr", "delattr", "patch"} and not (name != "patch" and isinstance(function, ast.Name))


TESTS = {path.relative_to(ROOT).as_posix(): path.read_text() for path in sorted((ROOT / "tests").rglob("*.py"))}


def test_no_test_imports_a_test_module():
    assert {name: found for name, source in TESTS.items() if (found := borrowed(source))} == {}


@pytest.mark.parametrize(
    "source",
    [
        "from tests.bayes.test_gradients import CASES",
        "from tests.bayes.likelihoods import test_em as em",
        "def f():\n    import tests.test_fit",
    ],
)
def test_a_borrowed_test_module_is_found(source):
    assert borrowed(source)
    assert not borrowed("from tests.builders import em_sums\nfrom tests.builders.releases import CASES")


def test_no_test_patches_what_a_string_names():
    sources = TESTS | {name: source for name, source in SOURCES.items() if room(name).startswith("verification.")}
    assert {name: found for name, source in sources.items() if (found := dotted_patches(source))} == {}


@pytest.mark.parametrize(
    "source",
    [
        'monkeypatch.setattr("os.replace", f)',
        'def test(monkeypatch):\n    monkeypatch.delattr("pm_dpgmm.fit.fit_gmm")',
        'with mock.patch("pm_dpgmm.methods.populous.average.core_weights", f):\n    pass',
        '@patch(f"{place}.core_weights")\ndef test(): pass',
    ],
)
def test_a_patch_by_a_string_is_found(source):
    assert dotted_patches(source)
    assert not dotted_patches(
        'monkeypatch.setattr(os, "replace", f)\nmock.patch.object(os, "replace", f)\nsetattr(x, "a", 1)'
    )
