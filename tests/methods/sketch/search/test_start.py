"""From noisy cells and a noisy residual to a start: noise is not taken for a cluster, no cluster for noise."""

import numpy as np
import pytest

from pm_dpgmm.mechanisms.frequencies import RieszProduct
from pm_dpgmm.mechanisms.moments import NoisyMoments
from pm_dpgmm.mechanisms.partitions import VoronoiPartition
from pm_dpgmm.mechanisms.sketch import NoisySketch
from pm_dpgmm.methods.sketch.model import SketchData
from pm_dpgmm.methods.sketch.scaled_mixture import ScaledMixture
from pm_dpgmm.methods.sketch.search.dictionary import places_of
from pm_dpgmm.methods.sketch.search.start import leaves_of, next_cells, trusted_leaves
from pm_dpgmm.mixture.mixture import Mixture

COUNTS = np.array([40_000.0, 60_000.0])


def moments_of(counts, variances, *, noise_scale, n_features=4):
    """Cells at distinct corners, each with round records of these variances about its centre, as released."""
    centres = np.arange(len(counts))[:, None] * np.ones(n_features) / len(counts)
    radii = np.full(len(counts), 2.2 * np.sqrt(n_features * max(np.max(variances), 1e-3)))
    scaled = np.array(variances)[:, None, None] / radii[:, None, None] ** 2 * np.eye(n_features)
    squares = np.asarray(counts)[:, None, None] * scaled
    partition = VoronoiPartition(np.zeros(n_features), np.ones(n_features), centres, radii)
    values = [np.asarray(counts, dtype=float), np.zeros((len(counts), n_features)), squares]
    return NoisyMoments(partition, *values, noise_scale)


def test_a_cell_of_one_cluster_stays_whole_while_another_holds_several():
    mixed = moments_of(COUNTS, [0.5, 0.01], noise_scale=50.0)
    cells = next_cells(mixed, leaves_of(mixed, COUNTS.sum()), 4)
    assert len(cells.centres) == 3  # the wide cell in two; the narrow one as it was
    assert (np.abs(cells.centres - mixed.partition.centres[1]).max(axis=1) < 1e-12).sum() == 1
    alike = moments_of(COUNTS, [0.5, 0.4], noise_scale=50.0)
    assert len(next_cells(alike, leaves_of(alike, COUNTS.sum()), 4).centres) == 4


def test_a_cell_of_noise_is_not_trusted_and_the_fullest_always_is():
    moments = moments_of([50_000.0, 150.0, -80.0], [0.1, 0.1, 0.1], noise_scale=90.0)
    leaves = trusted_leaves(moments, 50_000)
    assert leaves.weights.tolist() == [1.0]
    nothing = moments_of([-5.0, 20.0], [0.1, 0.1], noise_scale=90.0)
    assert len(trusted_leaves(nothing, 100).weights) == 1


@pytest.mark.parametrize(("variances", "kept"), [([0.1, 0.11], 0.1), ([0.1, 0.4], 0.9)])
def test_sizes_that_noise_explains_become_one_and_others_stay(variances, kept):
    moments = moments_of([5_000.0, 5_000.0], variances, noise_scale=20.0)
    plain, found = leaves_of(moments, 10_000), trusted_leaves(moments, 10_000)

    def ratio(leaves):
        return float(np.log(np.trace(leaves.covariances[1]) / np.trace(leaves.covariances[0])))

    assert ratio(plain) == pytest.approx(np.log(variances[1] / variances[0]), rel=0.05)
    share = ratio(found) / ratio(plain)
    assert share < 0.5 if kept < 0.5 else share > kept


@pytest.mark.parametrize("far", [1.0, 3.0])
def test_a_narrow_component_that_is_missing_is_found_within_the_ball_and_beyond(far):
    """Without noise; a place drawn at random comes within its width once in 10,000 times."""
    mean = far * np.array([0.6, -0.5, 0.3])
    truth = Mixture([0.94, 0.06], [np.zeros(3), mean], np.stack([0.04 * np.eye(3), 0.0016 * np.eye(3)]))
    bases = np.random.default_rng(0).normal(scale=3.0, size=(20, 4, 3))
    frames = RieszProduct(bases, np.zeros(3))
    phases = frames.frequencies @ truth.means.T
    spread = np.einsum("me,kef,mf->mk", frames.frequencies, truth.covariances, frames.frequencies)
    values = np.exp(1j * phases - spread / 2) @ truth.weights * 10_000 * frames.amplitudes
    sketch = NoisySketch(frames, np.stack([values.real, values.imag]), 10.0, 10_000.0)
    data = SketchData.of([sketch], np.ones(3))
    found = ScaledMixture(np.ones(1), np.zeros((1, 3)), 0.2 * np.eye(3)[None])
    atoms = np.zeros((1, 3)), 0.2 * np.eye(3)[None]
    _, sharpened = places_of(data, found, atoms, radius=1.5)
    gain = sharpened.gains(data.residuals(found) / data.deviations)[0]
    assert np.linalg.norm(sharpened.means[gain.argmax()] - mean) < 0.04


@pytest.mark.parametrize("n_records", [300, 100_000])
def test_cells_of_few_records_do_not_grow_with_their_noise(n_records):
    """Five levels of one cell, each as wide as the noise of the one before, had radii of 2, 2.8, 4.5, 5.4 and 48."""
    rng, d, scale = np.random.default_rng(4), 4, 60.0
    partition = VoronoiPartition(np.zeros(d), np.ones(d), np.zeros((1, d)), np.array([np.sqrt(d)]))
    for _ in range(6):
        noise = rng.normal(size=(d, d)) * scale / np.sqrt(2)
        radius = partition.radii[0]
        moments = NoisyMoments(
            partition,
            np.array([n_records + rng.normal(scale=scale)]),
            rng.normal(scale=scale, size=(1, d)) - n_records * partition.centres / radius,
            (n_records * 0.09 / radius**2 * np.eye(d) + (noise + noise.T) / np.sqrt(2))[None],
            scale,
        )
        leaves = leaves_of(moments, n_records)
        deviation = np.sqrt(np.trace(leaves.covariances[0]) / d)
        assert 0.15 < deviation < 1.0 and np.abs(leaves.means).max() <= np.sqrt(d)
        assert n_records == 300 or abs(deviation - 0.3) < 0.01
        partition = next_cells(moments, leaves, 1)
