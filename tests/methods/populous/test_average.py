"""The average of the fits that agree: level, core, alignment and barycentre, against the plain reference."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize

from pm_dpgmm.learners.fit_arrays import Fits
from pm_dpgmm.methods.populous import average as module
from pm_dpgmm.methods.populous.agreement import AgreementRule, friend_table
from pm_dpgmm.methods.populous.average import average_core, barycentre, core_weights, moved_mass, stability_level
from tests.builders.subset_fits import plain, random_covariances, rule_for, sampled
from verification.claims.aggregated import reference


def in_the_data_frame(average):
    """The reference's form of an average."""
    k, d = average.centres.shape
    back = np.zeros((k, d + 1, d + 1))
    back[:, :d, :d], back[:, :d, d], back[:, d, d] = average.factors, average.centres, 1.0
    return reference.Average(back @ average.points @ np.swapaxes(back, 1, 2), average.weights, 0)


def apart(first, second, kappa):
    """d_2 of two averages, each in its own frames: from frame to frame without a detour through the data's."""
    k, d = first.centres.shape
    distances, order = [], []
    for a in range(k):
        shifts = np.linalg.solve(first.factors[a], (second.centres - first.centres[a]).T).T
        b = int(np.argmin(np.linalg.norm(shifts, axis=1)))
        turn = np.eye(d + 1)
        turn[:d, :d], turn[:d, d] = np.linalg.solve(first.factors[a], second.factors[b]), shifts[b]
        distances.append(reference.distance(turn @ second.points[b] @ turn.T, first.points[a]))
        order.append(b)
    assert sorted(order) == list(range(k))
    return float(np.linalg.norm([*distances, *((first.weights - second.weights[order]) / kappa)]))


def cloud(rng, n, size, reach):
    """Positive definite matrices within ``reach`` of I, the first one I itself, on a sphere of half that radius."""
    tangents = rng.standard_normal((n, size, size))
    tangents = tangents + np.swapaxes(tangents, 1, 2)
    tangents *= reach / np.linalg.norm(tangents, axis=(1, 2), keepdims=True)
    values, vectors = np.linalg.eigh(tangents)
    points = (vectors * np.exp(values)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    points[0] = np.eye(size)
    return (points + np.swapaxes(points, 1, 2)) / 2


def test_levels_and_weights_are_those_of_the_reference():
    rng = np.random.default_rng(0)
    for _ in range(300):
        t = int(rng.integers(1, 30))
        counts = rng.integers(0, t + 1, t)
        top, full = (int(rng.integers(1, t + 1)) for _ in range(2))
        assert stability_level(counts, top=top, full=full) == reference.level(counts, top, full)
        floor = int(rng.integers(0, top))
        assert (core_weights(counts, floor=floor, top=top) == reference.ramp(counts, floor, top)).all()
        if full <= t - 1:
            assert moved_mass(t, floor=floor, top=top, full=full) == reference.mass_bound(t, floor, top, full)


def all_graphs(t):
    """Every friend table of t fits, invalid ones among them, with every replacement of the row of the last fit."""
    pairs = list(itertools.combinations(range(t), 2))
    for bits in itertools.product((False, True), repeat=len(pairs)):
        table = np.zeros((t, t), dtype=bool)
        for (i, j), bit in zip(pairs, bits, strict=True):
            table[i, j] = table[j, i] = bit
        yield table


def test_the_level_moves_by_one_and_the_mass_by_at_most_its_bound():
    t = 4
    tables = [table | np.eye(t, dtype=bool) for table in all_graphs(t)]
    by_rest = {}
    for table in tables:
        by_rest.setdefault(table[:3, :3].tobytes(), []).append(table)
    largest = 0.0
    for tables in by_rest.values():
        for top, full in itertools.product(range(1, t + 1), repeat=2):
            rows = [table.sum(axis=1) for table in tables]
            levels = [stability_level(row, top=top, full=full) for row in rows]
            assert max(levels) - min(levels) <= 1
            if max(levels) == 0:
                continue
            for floor in range(top):
                bound = moved_mass(t, floor=floor, top=top, full=full)
                shares = [core_weights(row, floor=floor, top=top) for row in rows]
                for (a, h), (b, g) in itertools.product(zip(shares, levels, strict=True), repeat=2):
                    if max(h, g) >= 1:
                        moved = 1 - np.minimum(a / a.sum(), b / b.sum())[:3].sum()
                        largest = max(largest, moved / bound)
    assert 0.9 < largest <= 1 + 1e-12


@pytest.mark.parametrize("floor, top", [(3, 3), (4, 3), (-1, 3), (0.5, 3)])
def test_a_core_without_a_ramp_is_refused(floor, top):
    with pytest.raises((TypeError, ValueError)):
        core_weights(np.zeros(5), floor=floor, top=top)


@pytest.mark.parametrize("core", ["triple", "pair"])
@pytest.mark.parametrize("k, d, n", [(1, 1, 60), (2, 1, 400), (3, 2, 300), (2, 5, 600)])
def test_the_average_is_that_of_the_reference(k, d, n, core):
    t = 15
    fits, rule = sampled(np.random.default_rng(1), t, k, d, n, outliers=1), rule_for(k, d, n, core=core, share=1.5)
    table = friend_table(fits, rule)
    top = rule.core_floor(t) + 3
    s = reference.Settings(t, k, rule.component_radius, rule.fit_radius, core == "triple", top, top)
    counts = table.sum(axis=1)
    assert stability_level(counts, top=top, full=3) >= 1 and counts.min() <= s.floor
    average, expected = average_core(fits, table, rule, top=top), reference.average(plain(fits), s)
    same_order = tuple(range(k))
    assert reference.gap(in_the_data_frame(average), expected, same_order, rule.kappa) < rule.average_error / 10


@pytest.mark.parametrize("condition, offset", [(1, 0.0), (1, 1e6), (1e6, 0.0), (1e6, 1e3)])
def test_every_reference_gives_the_same_average(condition, offset):
    """Also at the largest condition number, far from the origin and in odd units."""
    rng, k, d, t, n = np.random.default_rng(2), 2, 4, 9, 400
    truth = random_covariances(rng, k, d, condition)
    sd = np.sqrt(np.diagonal(truth, axis1=1, axis2=2))
    truth = truth / sd[:, :, None] / sd[:, None, :]
    unit = 10.0 ** np.array([-6, 0, 3, 6])
    fits = Fits(np.empty((t, k)), np.empty((t, k, d)), np.empty((t, k, d, d)), np.ones(t, dtype=bool))
    for i in range(t):
        for a, b in enumerate(rng.permutation(k)):
            rows = (rng.standard_normal((n, d)) @ np.linalg.cholesky(truth[b]).T + 20 * b + offset) * unit
            fits.means[i, a], fits.covariances[i, a] = rows.mean(axis=0), np.cov(rows.T)
        fits.weights[i] = rng.dirichlet(np.full(k, 20.0 * n))
    rule = AgreementRule(k, d, 0.8, 1.2, largest_condition=4e6 if condition > 1 else 1e6)
    table = friend_table(fits, rule)
    averages = []
    for first in range(t):
        order = [first, *(i for i in range(t) if i != first)]
        moved = Fits(fits.weights[order], fits.means[order], fits.covariances[order], fits.given)
        averages.append(average_core(moved, table[np.ix_(order, order)], rule, top=t))
    assert table.sum(axis=1).min() > rule.core_floor(t)  # every fit is in the core
    assert max(apart(averages[0], other, rule.kappa) for other in averages) < rule.average_error


@pytest.mark.parametrize("core, separation", [("pair", 6.05), ("triple", 5.96)])
def test_alignments_of_the_turned_circle_compose(core, separation):
    """The circle of the note, turned by parts of a gap: the average is the same from every reference."""
    k, radius, t = 8, 0.2, 9
    size = separation * radius / (2 * math.sin(math.pi / k))
    step = 2 * math.asin(0.99 * radius / (2 * size))
    fits = Fits(np.full((t, k), 1 / k), np.zeros((t, k, 2)), np.empty((t, k, 2, 2)), np.ones(t, dtype=bool))
    for i in range(t):
        angles = 2 * np.pi * np.arange(k) / k + step * (i % 3 - 1)
        circle = size * np.stack([np.cos(angles), np.sin(angles)], axis=1)
        fits.covariances[i] = np.exp(np.roll(circle, i, axis=0))[:, :, None] * np.eye(2)
    rule = AgreementRule(k, 2, radius, 10.0, core=core)
    table = friend_table(fits, rule)
    assert table.sum() == t * t - 2 * 9  # only the ends of the turn are not friends
    found = []
    for shift in range(t):
        order = np.roll(np.arange(t), shift)
        moved = Fits(fits.weights, fits.means, fits.covariances[order], fits.given)
        average = average_core(moved, table[np.ix_(order, order)], rule, top=t)
        found.append(np.log(np.diagonal(in_the_data_frame(average).points[:, :2, :2], axis1=1, axis2=2)))
    assert len(found) == t
    for logs in found:
        gaps = np.linalg.norm(logs[:, None] - found[0][None], axis=-1)
        assert gaps.min(axis=1).max() < 1e-6 and sorted(gaps.argmin(axis=1)) == list(range(k))


@pytest.mark.parametrize("size", [2, 4, 11])
@pytest.mark.parametrize("radius", [0.1, 0.5, 1.0])
def test_fast_and_safe_steps_end_in_the_same_point(size, radius, monkeypatch):
    rng, rule = np.random.default_rng(size), AgreementRule(1, size - 1, radius, radius)
    points = cloud(rng, 9, size, 2 * radius)
    weights = rng.dirichlet(np.ones(9))
    fast = barycentre(points, weights, rule)
    monkeypatch.setattr(module, "FULL_STEPS", 0)
    safe = barycentre(points, weights, rule)
    assert reference.distance(fast, safe) <= 2 * module.SAFETY * rule.average_error + 1e-12
    assert reference.distance(safe, reference.barycentre(points, weights, radius)) <= 1e-3 * rule.average_error
    root = np.linalg.cholesky(safe)
    logs = [reference_log(np.linalg.solve(root, np.linalg.solve(root, p).T)) for p in points]
    assert np.linalg.norm(np.tensordot(weights, logs, 1)) <= 2e-3 * rule.average_error


def reference_log(matrix):
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return (vectors * np.log(values)) @ vectors.T


@pytest.mark.parametrize("radius", [0.1, 0.6, 1.0])
def test_safe_steps_stay_near_and_their_number_is_enough(radius, monkeypatch):
    """Never farther than 4 s_inf from a point, for clouds as wide as a core may be."""
    seen = []
    gradient = module._gradient
    monkeypatch.setattr(module, "FULL_STEPS", 0)
    monkeypatch.setattr(
        module, "_gradient", lambda inverse, *rest: (seen.append(np.linalg.inv(inverse)), gradient(inverse, *rest))[1]
    )
    rng, rule = np.random.default_rng(3), AgreementRule(1, 2, radius, radius)
    for _ in range(5):
        points = cloud(rng, 6, 3, radius)  # so pairs are at most 2 radii apart
        barycentre(points, rng.dirichlet(np.full(6, 0.3)), rule)
    z = 2 * math.sqrt(2) * radius
    assert len(seen) < 5 * math.ceil(100 * z / math.tanh(z))
    for root in seen[::3]:
        assert max(reference.distance(root @ root.T, p) for p in points) <= 4 * radius


def transport(table, a, b):
    n = len(a)
    sums = np.vstack([np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))])
    return optimize.linprog(table.ravel(), A_eq=sums[:-1], b_eq=np.append(a, b[:-1]), method="highs").fun


def test_barycentres_are_no_farther_apart_than_their_weights():
    rng, largest = np.random.default_rng(4), 0.0
    for trial in range(25):
        rule = AgreementRule(1, 2, 0.8, 0.8)
        points = cloud(rng, 5, 3, 0.8)
        if trial % 3 == 0:  # on one geodesic, where the bound is attained
            values, vectors = np.linalg.eigh(points[1])
            points = np.array([(vectors * values**s) @ vectors.T for s in (0.0, 0.3, 0.5, -0.5, 1.0)])
        table = np.array([[reference.distance(x, y) for y in points] for x in points])
        a, b = rng.dirichlet(np.full(5, 0.5), 2)
        moved = reference.distance(barycentre(points, a, rule), barycentre(points, b, rule))
        largest = max(largest, moved / transport(table, a, b))
        assert moved <= transport(table, a, b) + 2 * module.SAFETY * rule.average_error + 1e-12
    assert largest > 0.9


def test_one_fit_that_moves_straight_through_the_centre_attains_the_bound():
    """All fits equal but one, from + s_2 to - s_2 with full weight: the average moves by 2 s_2 W, and no more."""
    t, radius = 9, 0.3
    rule = AgreementRule(1, 1, radius + 1e-4, radius + 1e-4)
    moved = []
    for side in (-radius, radius):
        logs = np.where(np.arange(t) == 4, side, 0.0)
        fits = Fits(np.ones((t, 1)), np.zeros((t, 1, 1)), np.exp(logs).reshape(t, 1, 1, 1), np.ones(t, dtype=bool))
        table = friend_table(fits, rule)
        assert table.all()
        average = in_the_data_frame(average_core(fits, table, rule, top=t - 1))
        moved.append(average.points[0])
    bound = 2 * radius * moved_mass(t, floor=rule.core_floor(t), top=t - 1, full=t - 1)
    assert reference.distance(*moved) == pytest.approx(bound, abs=2 * rule.average_error)


def test_without_a_core_there_is_no_average():
    fits, rule = sampled(np.random.default_rng(5), 6, 2, 2, 300), AgreementRule(2, 2, 0.01, 0.01)
    assert average_core(fits, friend_table(fits, rule), rule, top=6) is None
    nothing = Fits(fits.weights, fits.means * np.nan, fits.covariances, fits.given)
    assert average_core(nothing, friend_table(nothing, rule), rule, top=6) is None
