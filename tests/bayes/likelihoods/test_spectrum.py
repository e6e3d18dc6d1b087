"""Eigenvalues in a graph: values and two derivatives against finite differences, and equal eigenvalues."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest

from pm_dpgmm.bayes.likelihoods.spectrum import eigenvalues

pytestmark = pytest.mark.filterwarnings("ignore:PyTensor could not link to a BLAS installation:UserWarning")

POINT = np.array([1.0, 0.3, 0.8, -0.2, 0.5, 1.4])  # entries of a lower factor


def a_function(*, second):
    """A symmetric function of the eigenvalues of L L' and 4 L L', with its derivatives by the entries of L."""
    x = pt.vector("x")
    factor = pt.set_subtensor(pt.zeros((3, 3))[np.tril_indices(3)], x)
    matrices = pt.specify_shape(pt.stack([factor @ factor.T, 4 * factor @ factor.T]), (2, 3, 3))
    value = pt.square(pt.log1p(eigenvalues(matrices))).sum()
    slope = pytensor.grad(value, x)
    outputs = [value, slope]
    if second:
        outputs.append(pt.stack([pytensor.grad(slope[i], x) for i in range(len(POINT))]))
    return pytensor.function([x], outputs, mode="FAST_COMPILE")


def differences(function, output, step=1e-5):
    ends = [[function(POINT + sign * step * unit)[output] for unit in np.eye(len(POINT))] for sign in (1, -1)]
    return (np.array(ends[0]) - np.array(ends[1])) / (2 * step)


@pytest.mark.thorough
def test_both_derivatives_equal_finite_differences():
    function = a_function(second=True)
    value, slope, curvature = function(POINT)
    factor = np.zeros((3, 3))
    factor[np.tril_indices(3)] = POINT
    spectrum = np.linalg.eigvalsh(factor @ factor.T)
    assert value == pytest.approx((np.log1p(spectrum) ** 2).sum() + (np.log1p(4 * spectrum) ** 2).sum(), rel=1e-12)
    np.testing.assert_allclose(slope, differences(function, 0), atol=1e-8)
    np.testing.assert_allclose(curvature, differences(function, 1), atol=1e-8)


def test_the_gradient_at_equal_eigenvalues_is_that_of_the_function():
    _, slope = a_function(second=False)(np.array([1.0, 0.0, 1.0, 0.0, 0.0, 1.0]))
    by_entry = 2 * np.log1p(1) / 2 * 2 + 2 * np.log1p(4) / 5 * 8  # of log(1 + l^2)^2 + log(1 + 4 l^2)^2 at l = 1
    np.testing.assert_allclose(slope, by_entry * np.array([1, 0, 1, 0, 0, 1]), atol=1e-12)
