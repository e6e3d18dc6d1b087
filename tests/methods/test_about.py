import pytest

from pm_dpgmm.methods.about import at_least_about


@pytest.mark.parametrize("size, about", [(1.2, 2), (99.5, 100), (14_000, 14_000), (14_001, 15_000), (1.0e13, 10**13)])
def test_sizes_have_two_digits_and_are_never_fewer(size, about):
    assert at_least_about(size) == about
