"""The fixture fails where a claim is refuted, says how to reproduce it, repeats itself, and shares out its error."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import numpy as np
import pytest

from verification import GDP, audit, pytest_plugin, repeated
from verification.auditing.detection_limit import caught, detection_limit, sequential_limit
from verification.pytest_plugin import FLAKE_RATE, DpAudit, WeakAuditWarning, weak

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "-pverification.pytest_plugin"
MECHANISMS = """
import numpy as np
import pytest

def laplace(scale):
    def mechanism(data, n, rng):
        return data + rng.laplace(scale=scale, size=n)
    return mechanism
"""


def laplace(scale):
    return lambda data, n, rng: data + rng.laplace(scale=scale, size=n)


@pytest.fixture
def suite(pytester, monkeypatch):
    """Run a suite: mechanisms and the given tests, in a directory of their own."""
    # All that audits import must stay: pytester forgets modules that were imported under it, and NumPy cannot reload.
    audit(laplace(1.0), 0.0, 1.0, epsilon=1.0, n_samples=1_000)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(tests, *options, subprocess=False):
        pytester.makepyfile(test_suite=MECHANISMS + textwrap.dedent(tests))
        return (pytester.runpytest_subprocess if subprocess else pytester.runpytest_inprocess)(PLUGIN, *options)

    return run


@pytest.mark.thorough
def test_sound_claims_pass_and_broken_ones_fail_with_how_to_reproduce(suite):
    result = suite("""
        def test_sound(dp_audit):
            result = dp_audit(laplace(1.0), 0.0, 1.0, epsilon=1.0)
            assert not result.refuted and result.n_samples == 50_000

        def test_sound_again(dp_audit):
            dp_audit(laplace(1.0), 0.0, 1.0, epsilon=1.0, n_samples=1_000)
            dp_audit(laplace(0.5), 0.0, 1.0, epsilon=2.0, n_samples=1_000)

        def test_broken(dp_audit):
            dp_audit(laplace(0.5), 0.0, 1.0, epsilon=1.0)

        def test_exact_density(dp_audit):
            def log_density(outputs, data):
                return -abs(outputs - data)
            dp_audit(laplace(1.0), 0.0, 1.0, epsilon=0.8, n_samples=20_000, log_density=log_density)
    """)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "E*AssertionError: claim epsilon = 1 refuted: epsilon is at least 1.*(certified, error probability 6.079*e-05)",
            "E*laplace.<locals>.mechanism, audit 1 of the test, 50000 runs, rng = numpy.random.default_rng([[]*, 1])",
            "E*reproduce: pytest 'test_suite.py::test_broken' --dp-audit-seed=* --dp-audit-samples=50000",
            "E*AssertionError: claim epsilon = 0.8 refuted: *",
        ]
    )
    assert "_run(" not in result.stdout.str()  # the traceback ends at the line of the test


@pytest.mark.thorough
def test_must_refute_is_the_other_way_round(suite):
    result = suite("""
        def test_fault_is_caught(dp_audit):
            assert dp_audit.must_refute(laplace(0.5), 0.0, 1.0, epsilon=1.0, n_samples=10_000).refuted

        def test_no_fault(dp_audit):
            dp_audit.must_refute(laplace(1.0), 0.0, 1.0, epsilon=1.0, n_samples=10_000)
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "E*AssertionError: a refutation was expected; no violation found: *; this audit would have caught too little noise, epsilon >= *; rare leaks less*",
            "E*reproduce: pytest 'test_suite.py::test_no_fault' --dp-audit-seed=*",
        ]
    )


def test_seed_and_command_do_not_depend_on_where_pytest_begins(suite, pytester, monkeypatch):
    """The folder in the id of a test does, and so did the bounds; the command named a file that was not there."""
    suite("""
        def test_broken(dp_audit):
            dp_audit(laplace(0.01), 0.0, 1.0, epsilon=1.0, n_samples=1_000)
    """)
    below = pytester.mkdir("below")
    (pytester.path / "test_suite.py").rename(below / "test_suite.py")
    told = []
    for place, options in ((pytester.path, ["below"]), (below, [f"--rootdir={pytester.path}"]), (below, [])):
        monkeypatch.chdir(place)
        told.append(pytester.runpytest_inprocess(PLUGIN, *options).stdout.str())
    assert len({re.search(r"default_rng\(\[(\d+), 1\]\)", one)[1] for one in told}) == 1
    names = [re.search(r"reproduce: pytest '([^']*)'", one)[1] for one in told]
    assert names == ["below/test_suite.py::test_broken", *["test_suite.py::test_broken"] * 2]


PRINTS = """
    @pytest.mark.parametrize("case", [1, 2])
    def test_bounds(dp_audit, case):
        bounds = [dp_audit(laplace(1.0), 0.0, 1.0, epsilon=2.0, n_samples=2_000).epsilon_lower for _ in range(2)]
        print("bounds", dp_audit.seed, *bounds)
"""


def bounds(result):
    return re.findall(r"bounds \d.*", result.stdout.str())


@pytest.mark.thorough
def test_seeds_follow_from_the_test_and_the_option_replaces_them(suite):
    first, again, seeded = suite(PRINTS, "-s"), suite(PRINTS, "-s"), suite(PRINTS, "-s", "--dp-audit-seed=7")
    assert len(bounds(first)) == 2
    assert bounds(first) == bounds(again)
    assert (
        len({number for line in bounds(first) for number in line.split()[1:]}) == 6
    )  # every audit has runs of its own
    assert [line.split()[1] for line in bounds(seeded)] == ["7", "7"]
    seed = bounds(first)[1].split()[1]
    printed = suite(PRINTS, "-s", f"--dp-audit-seed={seed}", "test_suite.py::test_bounds[2]")
    assert bounds(printed) == bounds(first)[1:]


@pytest.mark.filterwarnings("default::verification.pytest_plugin.WeakAuditWarning")  # the suite inside inherits filters
def test_the_number_of_runs_is_an_option(suite):
    result = suite(
        """
        def test_default(dp_audit):
            assert dp_audit(laplace(1.0), 0.0, 1.0, epsilon=1.0).n_samples == 300

        def test_own(dp_audit):
            assert dp_audit(laplace(1.0), 0.0, 1.0, epsilon=1.0, n_samples=400).n_samples == 400
        """,
        "--dp-audit-samples=300",
    )
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("option", ["--dp-audit-seed=-1", "--dp-audit-seed=x", "--dp-audit-samples=99"])
def test_bad_options_are_usage_errors(suite, option):
    result = suite("def test_nothing(dp_audit): pass", option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    name, value = option.split("=")
    result.stderr.fnmatch_lines([f"*argument {name}: must be an integer of at least *, got '{value}'"])


@pytest.mark.thorough
def test_the_suite_of_this_package_can_use_it(suite, pytester):
    # its own settings: warnings are errors, two workers; the option on the command line stands for an installed plugin
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    lines = [f"addopts = {settings['addopts']}", "filterwarnings ="]
    lines += [f"    {line}" for line in settings["filterwarnings"]]
    pytester.makeini("\n".join(["[pytest]", *lines]))
    result = suite(PRINTS + "        assert case == 1\n", "--dp-audit-seed=3", subprocess=True)
    result.assert_outcomes(passed=1, failed=1)
    assert len(bounds(result)) == 1
    assert bounds(result) == bounds(suite(PRINTS, "-s", "--dp-audit-seed=3", "-n0", subprocess=True))[1:]


@pytest.mark.thorough
def test_an_installed_plugin_on_the_command_line_too_is_no_error(suite, pytester):
    # An installation, as pytest sees it: metadata on the path that names the entry point.
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["pytest11"]
    folder = pytester.mkdir("installed") / "stand_in-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: stand-in\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[pytest11]\n" + "\n".join(f"{k} = {v}" for k, v in points.items()) + "\n")
    pytester.makepyfile("def test_loaded(dp_audit): pass")
    path = os.pathsep.join([str(folder.parent), os.environ["PYTHONPATH"]])
    for options in ([], [PLUGIN]):
        command = [sys.executable, "-m", "pytest", "-Werror", *options]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path})
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.thorough
def test_the_example_of_the_documentation_runs(suite):
    example = pytest_plugin.__doc__.split("Paste and run:\n\n")[1].split("\nA test whose claims hold")[0]
    suite(example).assert_outcomes(passed=2)


@pytest.mark.thorough(quick=["settings0"])
@pytest.mark.parametrize("settings", [{}, {"sequential": True}, {"delta": 1e-3}])
def test_too_few_runs_for_twice_the_claim_are_warned_of(settings):
    dp_audit = DpAudit("test", seed=1, n_samples=200)
    settings = {"epsilon": 1.0} | settings
    with pytest.warns(WeakAuditWarning, match="200 runs could hardly have refuted epsilon = .* runs would") as caught:
        result = dp_audit(laplace(1 / settings["epsilon"]), 0.0, 1.0, **settings)
    assert caught[0].filename == __file__ and result.detection_limit >= 2 * settings["epsilon"]
    if not settings.get("sequential") and not settings.get("delta"):
        n = int(str(caught[0].message).split("about ")[1].split(" ")[0].replace(",", ""))
        first, fewer = (DpAudit("test", seed=1, n_samples=runs) for runs in (n, 3 * n // 4))
        assert first(laplace(1.0), 0.0, 1.0, epsilon=1.0).detection_limit < 2
        with pytest.warns(WeakAuditWarning):
            fewer(laplace(1.0), 0.0, 1.0, epsilon=1.0)


@pytest.mark.parametrize("delta", [0.0, 0.01])
@pytest.mark.parametrize("sequential", [False, True])
def test_a_size_is_caught_where_it_is_beyond_the_limit(sequential, delta):
    """The words of a warning ask this a dozen times; they asked for the limit itself, which took half a minute."""
    claim = {"epsilon": 1.0, "delta": delta, "false_alarm": 1e-4}
    n = 1_000
    limit = sequential_limit(n_samples=n, **claim) if sequential else detection_limit(n_certified=n, **claim)
    assert caught(1.01 * limit, n=n, sequential=sequential, **claim)
    assert not caught(0.8 * limit, n=n, sequential=sequential, **claim)


@pytest.mark.parametrize("curve", [GDP(0.25).delta, ([1.0], [0.0]), (GDP(0.25), GDP(0.25)), GDP(0.25)])
def test_too_few_runs_for_a_curve_of_any_kind_are_warned_of(curve):
    with pytest.warns(WeakAuditWarning, match="runs are few for this curve"):
        DpAudit("test", seed=1, n_samples=100)(lambda data, n, rng: rng.normal(size=n), 0.0, 1.0, profile=curve)
    found = DpAudit("test", seed=1, n_samples=10_000)(lambda d, n, rng: rng.normal(size=n), 0.0, 1.0, profile=curve)
    assert not found.refuted


def test_types_that_may_tell_of_the_data_are_warned_of():
    def mechanism(data, n, rng):
        return np.rint(rng.laplace(scale=9.0, size=n)).astype(int if np.sum(data) else float)

    with pytest.warns(WeakAuditWarning, match="what a type tells was not looked at: outputs of changing type"):
        DpAudit("a test", seed=1, n_samples=4_000)(mechanism, [1.0, 0.0], [0.0, 0.0], epsilon=1.0)


def test_a_refuted_claim_and_a_planted_fault_are_not_warned_of():
    dp_audit = DpAudit("test", seed=1, n_samples=300)  # warnings are errors here
    assert dp_audit.must_refute(laplace(0.01), 0.0, 1.0, epsilon=1.0).detection_limit < math.inf
    with pytest.raises(AssertionError, match="refuted"):
        dp_audit(laplace(0.01), 0.0, 1.0, epsilon=1.0)


@pytest.mark.parametrize(
    "limit, epsilon, expected",
    [(2.0, 1.0, True), (1.99, 1.0, False), (math.inf, 1.0, True), (0.1, 0.0, False), (math.inf, 0.0, True)],
)
def test_what_says_next_to_nothing_is_twice_the_claim(limit, epsilon, expected):
    assert weak(limit, epsilon) == expected


@pytest.mark.filterwarnings("default::verification.pytest_plugin.WeakAuditWarning")  # the suite inside inherits filters
def test_the_warning_is_shown_by_pytest_and_may_be_made_a_failure(suite):
    weak_test = """
        def test_few(dp_audit):
            dp_audit(laplace(1.0), 0.0, 1.0, epsilon=1.0, n_samples=200)
    """
    result = suite(weak_test)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*WeakAuditWarning: 200 runs could hardly have refuted epsilon = 1*"])
    suite(weak_test, "-Werror::verification.pytest_plugin.WeakAuditWarning").assert_outcomes(failed=1)


def test_a_mechanism_that_runs_once_is_named_in_the_failure():
    def noisy(data, rng):
        return data + rng.laplace(scale=0.05)

    with pytest.raises(AssertionError, match="noisy, audit 1 of the test, 400 runs"):
        DpAudit("test", seed=1, n_samples=400)(repeated(noisy), 0.0, 1.0, epsilon=1.0)


@pytest.mark.filterwarnings("ignore::verification.pytest_plugin.WeakAuditWarning")
def test_the_errors_of_all_assertions_of_a_test_sum_to_the_flake_rate():
    dp_audit = DpAudit("test", seed=1, n_samples=100)

    def silent(data, n, rng):
        return np.zeros(n)

    def telling(data, n, rng):
        return np.full(n, data)

    errors = []
    for _ in range(20):
        errors.append(dp_audit(silent, 0.0, 1.0, epsilon=1.0).false_alarm)
        assert dp_audit.must_refute(telling, 0.0, 1.0, epsilon=0.1).false_alarm == FLAKE_RATE  # takes no share
    assert errors == pytest.approx([FLAKE_RATE * 6 / (math.pi * i) ** 2 for i in range(1, 21)])
    rest = FLAKE_RATE * 6 / math.pi**2 / 20  # sum of 1/i^2 beyond 20 is below 1/20
    assert FLAKE_RATE - rest < sum(errors) < FLAKE_RATE


def test_a_failed_assertion_has_used_its_share():
    dp_audit = DpAudit("test", seed=1, n_samples=1_000)
    with pytest.raises(AssertionError, match="refuted"):
        dp_audit(lambda data, n, rng: np.full(n, data), 0.0, 1.0, epsilon=1.0)
    assert dp_audit(laplace(1.0), 0.0, 1.0, epsilon=1.0).false_alarm == pytest.approx(
        FLAKE_RATE * 6 / (2 * math.pi) ** 2
    )


@pytest.mark.parametrize("name", ["false_alarm", "rng"])
def test_what_the_fixture_sets_cannot_be_given(name):
    dp_audit = DpAudit("test", seed=1, n_samples=1_000)
    for call in (dp_audit, dp_audit.must_refute):
        with pytest.raises(TypeError, match=f"dp_audit sets false_alarm and rng itself, got {name}"):
            call(laplace(1.0), 0.0, 1.0, epsilon=1.0, **{name: None})


def test_wrong_arguments_are_named_by_the_audit():
    with pytest.raises(ValueError, match="epsilon must be finite and at least 0"):
        DpAudit("test", seed=1, n_samples=1_000)(laplace(1.0), 0.0, 1.0, epsilon=-1.0)


@pytest.mark.parametrize(
    "mechanism, neighbour, words",
    [
        (lambda data, n, rng: np.full(n, np.nan), 1.0, "every run on both data sets failed"),
        (lambda data, n, rng: data + rng.laplace(scale=1e-3, size=n), 0.0, "x and x_neighbour are the same data"),
    ],
)
def test_an_audit_that_had_nothing_to_find_warns(mechanism, neighbour, words):
    with pytest.warns(WeakAuditWarning, match=f"the audit had nothing to find: {words}"):
        DpAudit("t", seed=1, n_samples=2_000)(mechanism, 0.0, neighbour, epsilon=1.0)
