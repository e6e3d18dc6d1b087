"""Faults are planted where a test could see them, and nowhere else."""

import ast

import pytest

from verification.benchmarks.mutations import drawn, faults_of, tests_of as files_of_tests

SOURCE = '''
"""A docstring with 1 + 2."""
def f(x: int = 0, *, low: float = 1e-12) -> "int | None":
    """Adds 1 < 2."""
    if x > 3:
        raise ValueError("x must be at most 3, got " + str(x + 1))
    check_count(x=x)
    y = max(x, 1.5) - g(x, y)
    return np.clip(y, 0, 2)
'''


def lines_of(kind):
    return {SOURCE.splitlines()[fault.line - 1].strip() for fault in faults_of("a.py", SOURCE) if fault.kind == kind}


def test_every_kind_has_its_places():
    assert lines_of("operator") == {"if x > 3:", "y = max(x, 1.5) - g(x, y)"}
    assert lines_of("validation") == {"if x > 3:", "check_count(x=x)"}
    assert lines_of("clip") == {"y = max(x, 1.5) - g(x, y)", "return np.clip(y, 0, 2)"}
    assert lines_of("swap") == {"y = max(x, 1.5) - g(x, y)", "return np.clip(y, 0, 2)"}


def test_words_types_and_tolerances_are_left_alone():
    """The arguments of ``max`` are not swapped: that changes nothing."""
    shown = [fault.shown(SOURCE) for fault in faults_of("a.py", SOURCE)]
    assert not any(word in line for line in shown for word in ("1e-12", "str(x", "Adds", "int |"))
    assert not any(line.startswith("swap: max") for line in shown)


def test_a_planted_fault_changes_the_program_and_nothing_around_it():
    for fault in faults_of("a.py", SOURCE):
        planted = fault.planted(SOURCE)
        assert ast.dump(ast.parse(planted)) != ast.dump(ast.parse(SOURCE))
        assert '"""Adds 1 < 2."""' in planted and planted.endswith("\n")


def test_a_number_plants_the_same_fault_again():
    faults = list(faults_of("a.py", SOURCE))
    assert [drawn(i, faults) for i in range(9)] == [drawn(i, faults) for i in range(9)]
    assert len({drawn(i, faults) for i in range(30)}) > 5


@pytest.mark.parametrize(
    "module, own",
    [
        ("pm_dpgmm/mixture/mixture.py", "tests/mixture/test_mixture.py"),
        ("verification/auditing/audit.py", "tests/verification/auditing/test_audit.py"),
    ],
)
def test_the_tests_that_mirror_a_module_come_first(module, own):
    first, near = files_of_tests(module)
    assert first == [own] and near and own not in near
