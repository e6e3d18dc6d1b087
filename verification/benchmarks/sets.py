"""Data sets of the accuracy benchmark: simulated ones with their truth, and two real tables that ship with packages.

Every set states what is public: the number of components, a box for methods with bounds per column, a ball around it
(or inside it, where the ball is what is public) for methods that need one, and a floor for variances that every method
gets. Training rows of a set with a ball are moved into it; held-out rows are not.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from pm_dpgmm import Mixture
from pm_dpgmm._arguments import FloatArray
from verification.benchmarks import truths

N_HELD_OUT = 20_000
SHARE_CLIPPED, SHARE_OUTLIERS, DEGREES = 0.05, 0.02, 4

Split = tuple[FloatArray, FloatArray]  # training rows, held-out rows
Draw = Callable[[int, np.random.Generator], FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """What is public about the columns, in the unit of the records."""

    box: FloatArray  # (D, 2)
    centre: FloatArray  # (D,)
    radius: float
    floor: float  # of variances

    @classmethod
    def ball(cls, radius: float, n_features: int, *, floor: float, centre: float = 0.0) -> Domain:
        """A ball and the box that encloses it."""
        box = np.tile([centre - radius, centre + radius], (n_features, 1))
        return cls(box, np.full(n_features, centre), radius, floor)

    @classmethod
    def around(cls, box: ArrayLike, *, floor: float) -> Domain:
        """A box (D, 2) and the ball that encloses it."""
        limits = np.asarray(box, dtype=float)
        return cls(limits, limits.mean(axis=1), float(np.linalg.norm(np.ptp(limits, axis=1) / 2)), floor)

    def unit(self, rows: FloatArray) -> FloatArray:
        """Rows in the unit of the ball, those outside moved to its surface."""
        scaled = (rows - self.centre) / self.radius
        return np.asarray(scaled / np.maximum(1.0, np.linalg.norm(scaled, axis=1))[:, None])

    def inside(self, rows: FloatArray) -> FloatArray:
        """Rows moved into the ball."""
        return self.unit(rows) * self.radius + self.centre


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """One row of the benchmark: how its data sets are made, and what is public about them."""

    name: str
    what: str
    n_records: int
    n_components: int
    domain: Domain
    split: Callable[[np.random.Generator], Split]
    truth: Mixture | None = None  # None where no mixture of ``n_components`` Gaussians is the truth
    epsilon: float = 1.0
    most_repeats: int = 1_000
    real: bool = False  # rows of a table


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """One drawn data set. The seed belongs to the recipe and the repeat, so it does not depend on what else runs."""

    recipe: Recipe
    repeat: int
    training: FloatArray
    held_out: FloatArray

    def seed(self, purpose: str) -> int:
        """Seed of one fit, from the names of set and purpose and the repeat."""
        return int(generator(self.recipe.name, self.repeat, purpose).integers(2**31))


def generator(name: str, repeat: int, purpose: str = "data") -> np.random.Generator:
    """The stream of one purpose in one repeat of one set."""
    return np.random.default_rng([zlib.crc32(name.encode()), repeat, zlib.crc32(purpose.encode())])


def data_set(name: str, repeat: int) -> DataSet:
    """Draw repeat ``repeat`` of the set ``name``."""
    recipe = RECIPES[name]
    return DataSet(recipe, repeat, *recipe.split(generator(name, repeat)))


# ---------------------------------------------------------------- laws
def gaussian(truth: Mixture) -> Draw:
    """Rows from the mixture itself."""
    return lambda n, rng: truths.draw(truth, n, rng=rng)


def student(truth: Mixture) -> Draw:
    """Clusters with t-distributed rows; the covariances of ``truth`` are their scale matrices."""
    return lambda n, rng: truths.draw(truth, n, rng=rng, degrees=DEGREES)


def with_outliers(truth: Mixture, radius: float) -> Draw:
    """Rows from the mixture, a share of them replaced by uniform ones in the ball of ``radius``."""

    def law(n: int, rng: np.random.Generator) -> FloatArray:
        rows = truths.draw(truth, n, rng=rng)
        foreign = rng.random(n) < SHARE_OUTLIERS
        directions = rng.standard_normal((int(foreign.sum()), truth.n_features))
        lengths = radius * rng.random(len(directions)) ** (1 / truth.n_features)
        rows[foreign] = directions * (lengths / np.linalg.norm(directions, axis=1))[:, None]
        return rows

    return law


def clipped(truth: Mixture, box: FloatArray) -> Draw:
    """Rows from the mixture with every column clipped to the box: point masses on its faces."""
    return lambda n, rng: np.clip(truths.draw(truth, n, rng=rng), box[:, 0], box[:, 1])


# ---------------------------------------------------------------- real tables
def health_insurance() -> FloatArray:
    """RAND Health Insurance Experiment (public domain, ships with statsmodels): four columns with public caps.

    Visits to a doctor (log of 1 + at most 80 a year), log of the participation incentive, of the deductible, and the
    chronic disease score (0 to 60), each scaled from [0, cap] to [-1, 1]. Columns two and three have point masses.
    """
    from statsmodels.datasets import randhie

    table = randhie.load_pandas().data
    columns = np.column_stack([np.log1p(table["mdvis"]), table["lpi"], table["fmde"], table["disea"]])
    caps = np.array([math.log1p(80), 7.2, 8.4, 60.0])
    return np.clip(2 * columns.astype(float) / caps - 1, -1, 1)


def digits() -> FloatArray:
    """Handwritten digits (ships with scikit-learn): ink in the four quadrants of the 8 x 8 images, scaled to [-1, 1].

    A quadrant has 16 pixels of 0 to 16, hence 0 to 256: limits of the format, not of the data.
    """
    from sklearn.datasets import load_digits

    images = load_digits().images
    ink = images.reshape(len(images), 2, 4, 2, 4).sum(axis=(2, 4)).reshape(len(images), 4)
    return np.asarray(ink / 128 - 1, dtype=float)


# ---------------------------------------------------------------- the list
def _simulated(name: str, n_records: int, truth: Mixture, domain: Domain, what: str, **more: object) -> Recipe:
    return _drawn(name, n_records, truth.n_components, gaussian(truth), domain, what, truth=truth, **more)


def _drawn(
    name: str, n_records: int, n_components: int, law: Draw, domain: Domain, what: str, **more: object
) -> Recipe:
    def split(rng: np.random.Generator) -> Split:
        return domain.inside(law(n_records, rng)), law(N_HELD_OUT, rng)

    return Recipe(name, what, n_records, n_components, domain, split, **more)  # type: ignore[arg-type]


def _table(name: str, n_records: int, n_components: int, rows: Callable[[], FloatArray], what: str) -> Recipe:
    def split(rng: np.random.Generator) -> Split:
        shuffled = rng.permutation(rows())
        return shuffled[:n_records], shuffled[n_records:]

    domain = Domain.around([[-1, 1]] * 4, floor=1e-3)
    return Recipe(name, what, n_records, n_components, domain, split, real=True)


def _recipes() -> list[Recipe]:
    a, b, c = truths.overlapping_column(), truths.disc(), truths.separated()
    ball_a = Domain.ball(40.0, 1, floor=0.25, centre=40.0)
    ball_c = Domain.ball(16.0, 5, floor=1e-2)
    box_c = truths.quantiles(c, [SHARE_CLIPPED / 2, 1 - SHARE_CLIPPED / 2])
    ten, twenty = truths.on_a_sphere(10), truths.on_a_sphere(20)
    return [
        _simulated("A-1e3", 1_000, a, ball_a, "three overlapping components in one column"),
        _simulated("A-1e4", 10_000, a, ball_a, "the same"),
        _simulated("A-1e5", 100_000, a, ball_a, "the same"),
        _simulated("B-8e3", 8_000, b, Domain.ball(1.0, 2, floor=1e-4), "three round clusters in a disc"),
        _simulated("B-1e5", 100_000, b, Domain.ball(1.0, 2, floor=1e-4), "the same"),
        _simulated("C-1e4", 10_000, c, ball_c, "three separated clusters, 5 columns"),
        _simulated("C-1e5", 100_000, c, ball_c, "the same"),
        _simulated("C-1e4-eps.3", 10_000, c, ball_c, "the same at epsilon 0.3", epsilon=0.3),
        _table("D", 16_152, 4, health_insurance, "RAND health insurance, 4 columns with point masses"),
        _simulated("E10-3e4", 30_000, ten, Domain.ball(6 + 2.5 * math.sqrt(10), 10, floor=1e-2), "10 columns"),
        _simulated("E20-1e5", 100_000, twenty, Domain.ball(6 + 2.5 * math.sqrt(20), 20, floor=1e-2), "20 columns"),
        _simulated("unequal", 20_000, truths.unequal(), Domain.ball(14.0, 4, floor=1e-2), "weights down to 3 %"),
        *(
            _simulated(
                f"far-{d}",
                10_000,
                truths.far(d),
                Domain.around([[-150, 150]] * d, floor=1e-2),
                f"2 % far away, {d} columns",
            )
            for d in (2, 3, 4)
        ),
        _simulated("eight", 20_000, truths.eight(), Domain.ball(12.0, 2, floor=1e-2), "8 components, 2 columns"),
        _simulated("overlap", 20_000, truths.overlapping(), Domain.ball(8.0, 2, floor=1e-2), "heavy overlap"),
        _simulated("stretched", 30_000, truths.stretched(), Domain.ball(14.0, 4, floor=1e-3), "condition number 1e3"),
        _simulated("wide", 100_000, truths.wide(), Domain.ball(60.0, 8, floor=1e-2), "ball 4 times too wide"),
        _drawn("heavy-tails", 10_000, 3, student(c), ball_c, "C with t-distributed clusters, 4 degrees"),
        _drawn("outliers", 10_000, 3, with_outliers(c, 16.0), ball_c, "C with 2 % uniform outliers"),
        _drawn("clipped", 10_000, 3, clipped(c, box_c), Domain.around(box_c, floor=1e-2), "C, 5 % clipped"),
        _simulated("small", 1_000, truths.pair(), Domain.ball(8.0, 3, floor=1e-2), "1,000 records, 3 columns"),
        _simulated("large", 2_000_000, truths.trio(), Domain.ball(10.0, 3, floor=1e-2), "2 million", most_repeats=3),
        _table("digits", 1_400, 3, digits, "ink in the quadrants of handwritten digits, 4 columns"),
    ]


RECIPES = {recipe.name: recipe for recipe in _recipes()}
