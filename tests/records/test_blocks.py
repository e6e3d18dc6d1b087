"""Blocks of records: the same integers and the same refusals as the array in memory, and never much in memory."""

import os
import pickle
import sys
import tracemalloc

import dask
import dask.array as da
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray
from scipy import sparse

import pm_dpgmm as dpg
from pm_dpgmm.mechanisms import box
from pm_dpgmm.mechanisms.frequencies import FejerHarmonics, RieszProduct
from pm_dpgmm.mechanisms.gaussian_filter import GaussianFilter
from pm_dpgmm.mechanisms.sketch import noisy_sketch
from pm_dpgmm.mechanisms.sketch_features import sketch_sums, sums_and_number
from pm_dpgmm.methods.sketch import location
from pm_dpgmm.privacy.guarantee import Neighbouring
from pm_dpgmm.records.blocks import RecordBlocks
from pm_dpgmm.records.reading import read_records

pytestmark = pytest.mark.filterwarnings("ignore::pm_dpgmm.FitWarning")  # poor fits on purpose

RNG = np.random.default_rng(11)
X = RNG.normal(size=(2_503, 3)) * np.array([1.0, 1e-7, 1e9])
NAMES = ("a", "b", "c")
FRAME = pd.DataFrame(X, columns=NAMES)
FRAMES = RieszProduct(RNG.normal(size=(2, 3, 3)) / X.std(axis=0), np.zeros(3))
SUMS = sketch_sums(X, FRAMES)
CLUSTERS = pd.DataFrame(
    np.random.default_rng(5).normal(size=(4_000, 2)) + np.repeat([[0.0], [6.0]], 2_000, axis=0), columns=["a", "b"]
)
BUDGET = {"epsilon": 1.0, "delta": 1e-6, "random_seed": 3, "progress": False}


def folder(path, frame=FRAME, n_files=3):
    path.mkdir()
    for i, index in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        frame.iloc[index].to_parquet(path / f"part.{i}.parquet", row_group_size=100)
    (path / "_metadata.parquet").write_bytes(b"no data")
    return path


def memmap(path):
    np.save(path / "x.npy", X)
    return np.load(path / "x.npy", mmap_mode="r")


def written(path, write, frame=FRAME, **options):
    getattr(frame, write)(path, **options)
    return path


SOURCES = {
    "array": lambda p: X,
    "array by columns": lambda p: np.asfortranarray(X),
    "rows of a list": lambda p: X.tolist(),
    "memmap": memmap,
    "data frame with any index": lambda p: FRAME.set_axis(RNG.permutation(len(X)), axis=0),
    "polars": lambda p: pl.DataFrame(dict(zip(NAMES, X.T, strict=True))),
    "dask array": lambda p: da.from_array(X, chunks=(700, 3)),
    "dask array in columns": lambda p: da.from_array(X, chunks=(400, 2)),
    "dask array of unknown sizes": lambda p: (lambda a: a[a[:, 0] > -np.inf])(da.from_array(X, chunks=(900, 1))),
    "dask frame": lambda p: dd.from_pandas(FRAME, npartitions=5),
    "parquet": lambda p: written(p / "x.parquet", "to_parquet", row_group_size=300),
    "parquet with an index": lambda p: written(p / "x.parquet", "to_parquet", FRAME.set_axis(RNG.permutation(len(X)))),
    "parquet folder": lambda p: folder(p / "parts"),
    "csv": lambda p: str(written(p / "x.csv", "to_csv", index=False)),
    "list of arrays": lambda p: [X[2000:], X[:0], X[:2000]],
    "list of all kinds": lambda p: [
        FRAME[:100],
        dd.from_pandas(FRAME[100:900], npartitions=3),
        written(p / "x.csv", "to_csv", FRAME[900:1500], index=False),
        folder(p / "parts", FRAME[1500:]),
    ],
    "dask delayed": lambda p: dask.delayed(X.copy)(),
    "xarray frame": lambda p: labelled(X),
    "xarray frame of dask": lambda p: labelled(da.from_array(X, chunks=(700, 2))),
}


def labelled(values):
    return xarray.DataArray(values, dims=("patient", "column"), coords={"column": list(NAMES)})


@pytest.mark.parametrize("source", SOURCES)
def test_sums_over_blocks_are_those_of_the_array_in_memory(source, tmp_path):
    blocks = RecordBlocks(SOURCES[source](tmp_path), rows_per_block=257)
    for _ in range(2):  # an iteration leaves nothing behind
        sums, n_records = sums_and_number(blocks, FRAMES)
        assert np.array_equal(sums, SUMS) and n_records == blocks.n_records == len(X)
    assert next(iter(blocks)).dtype == float and max(map(len, blocks)) <= 257
    named = any(word in source for word in ("frame", "polars", "parquet", "csv", "kinds"))
    assert blocks.feature_names == (NAMES if named else ("x0", "x1", "x2")) and blocks.n_features == 3


@pytest.mark.parametrize("source", SOURCES)
def test_columns_are_chosen_where_they_have_names_and_named_where_not(source, tmp_path):
    whole = SOURCES[source](tmp_path)
    chosen = ["c", "a"] if RecordBlocks(whole).feature_names == NAMES else ["p", "q", "r"]
    blocks = RecordBlocks(whole, columns=chosen, rows_per_block=257)
    expected = X[:, [2, 0]] if chosen == ["c", "a"] else X
    assert blocks.feature_names == blocks.columns == tuple(chosen)
    for _ in range(2):
        assert np.array_equal(np.sort(np.concatenate(list(blocks)), axis=0), np.sort(expected, axis=0))


def test_columns_that_are_not_chosen_may_hold_anything_and_differ_between_parts(tmp_path):
    other = FRAME.assign(name="text", empty=np.nan)[["name", "c", "empty", "a", "b"]]
    csv = written(tmp_path / "x.csv", "to_csv", other, index=False)
    parts = [
        other[:900],
        written(tmp_path / "x.parquet", "to_parquet", FRAME[900:1500]),
        dd.from_pandas(other[1500:], npartitions=2),
    ]
    for source in (csv, written(tmp_path / "y.parquet", "to_parquet", other), parts):
        blocks = RecordBlocks(source, columns=["a", "b", "c"])
        assert np.array_equal(np.concatenate(list(blocks)), X) and blocks.feature_names == NAMES
    with pytest.raises(ValueError, match=r"columns must be among .*, got .*'d'"):
        RecordBlocks(csv, columns=["a", "d"])
    with pytest.raises(ValueError, match="columns must be 3 distinct names, one for each column of X"):
        RecordBlocks(X, columns=["a"])
    with pytest.raises(TypeError, match="columns must be a sequence of column names, got the text 'a'"):
        RecordBlocks(csv, columns="a")


def test_one_column_may_have_one_dimension():
    ladder, column = FejerHarmonics(0.7, 16, 0.3), X[:, 0]
    for source in (
        column,
        da.from_array(column, chunks=600),
        dd.from_pandas(FRAME, npartitions=3)["a"],
        pd.Series(column),
    ):
        assert np.array_equal(sketch_sums(RecordBlocks(source), ladder), sketch_sums(column[:, None], ladder))


def test_numbers_of_any_type_are_read_as_in_memory(tmp_path):
    frame = pd.DataFrame(
        {"i": [2**62 + 1, 3, 5], "u": [10**19, 1, 2], "b": [True, False, True], "f": [0.1, 1e-300, 1e300]}
    )
    csv = written(tmp_path / "x.csv", "to_csv", frame, index=False)
    for source in (frame, csv, written(tmp_path / "x.parquet", "to_parquet", frame)):
        assert np.array_equal(np.concatenate(list(RecordBlocks(source, rows_per_block=1))), read_records(source)[0])


def test_workers_can_sum_their_own_blocks(tmp_path):
    shuffled = np.random.default_rng(3).permutation(X)
    partitions = da.from_array(shuffled, chunks=(600, 3)).to_delayed().ravel()
    with dask.config.set(scheduler="synchronous"):
        sums = dask.compute(*[dask.delayed(sketch_sums)(part, FRAMES) for part in partitions])
    assert len(sums) == 5 and np.array_equal(np.sum(sums, axis=0), SUMS)
    blocks = RecordBlocks(folder(tmp_path / "parts"), rows_per_block=400)
    sums = joblib.Parallel(2, prefer="threads")(joblib.delayed(sketch_sums)(block, FRAMES) for block in blocks)
    assert len(sums) == len(list(blocks)) and np.array_equal(np.sum(sums, axis=0), SUMS)
    elsewhere = pickle.loads(pickle.dumps(blocks))
    assert np.array_equal(sketch_sums(elsewhere, FRAMES), SUMS)


def test_a_private_sketch_of_blocks_is_that_of_the_array():
    def sketch(records):
        return noisy_sketch(
            records,
            FRAMES,
            budget=GaussianFilter.of(1.0, 1e-6),
            share=1,
            neighbouring=Neighbouring.REPLACE_ONE,
            rng=np.random.default_rng(0),
        )[0]

    ours = sketch(RecordBlocks(dd.from_pandas(FRAME, npartitions=4)))
    assert np.array_equal(ours.values, sketch(X).values) and ours.n_records == len(X)


@pytest.mark.thorough(quick=["add-remove-none"])
@pytest.mark.parametrize("given", [{"bounds": (-9, 15)}, {}], ids=["bounds", "none"])
@pytest.mark.parametrize("neighbouring", ["replace-one", "add-remove"])
def test_a_fit_of_blocks_is_that_of_the_array(given, neighbouring):
    blocks = RecordBlocks(dd.from_pandas(CLUSTERS, npartitions=4), rows_per_block=500)
    ours, whole = (dpg.fit_gmm(X, 2, neighbouring=neighbouring, **given, **BUDGET) for X in (blocks, CLUSTERS))
    assert ours.feature_names == whole.feature_names == ("a", "b") and ours.n_records == whole.n_records
    assert set(ours.raw) == set(whole.raw)
    assert all(np.array_equal(ours.raw[name], whole.raw[name], equal_nan=True) for name in whole.raw)
    assert np.array_equal(ours.means, whole.means)


@pytest.mark.thorough
def test_one_column_and_another_site_come_in_blocks_too():
    column, more = CLUSTERS[["a"]], {}
    for _ in range(2):
        ours, whole = (dpg.fit_gmm(X, 2, **more, **BUDGET) for X in (RecordBlocks(column), column))
        assert np.array_equal(ours.means, whole.means)
        more = {"like": whole}


def test_the_scale_of_many_records_is_that_of_a_sample(monkeypatch):
    """Off by more than 6 standard deviations once in 500 million."""
    rows, sizes, real = np.repeat(CLUSTERS.to_numpy(), 15, axis=0), [], box.pair_distance_counts
    rows = rows + np.random.default_rng(0).normal(scale=0.1, size=rows.shape)
    monkeypatch.setattr(location, "PAIRED", 20_000)
    monkeypatch.setattr(
        box, "pair_distance_counts", lambda sample, order: sizes.append(len(sample)) or real(sample, order)
    )
    ordered = RecordBlocks(rows[np.argsort(rows[:, 0])], rows_per_block=7_000)
    release = dpg.fit_gmm(ordered, 2, **BUDGET)
    assert abs(sizes[0] - 20_000) < 6 * np.sqrt(20_000)
    assert np.allclose(np.sort(release.means[:, 0]), [0.0, 6.0], atol=0.1)


def test_other_methods_need_the_records_in_memory():
    with pytest.raises(ValueError, match="X must be records in memory with method 'histogram'"):
        dpg.fit_gmm(RecordBlocks(CLUSTERS), 2, epsilon=1.0, bounds=(-9, 9), progress=False)


@pytest.mark.thorough(quick=["dask"])
@pytest.mark.parametrize("kind", ["parquet", "parquet in one group", "csv", "memmap", "dask"])
def test_memory_is_that_of_a_block_and_not_of_the_records(kind, tmp_path):
    table = np.random.default_rng(0).normal(size=(250_000 if "parquet" in kind else 120_000, 4))  # nothing to compress
    frame = pd.DataFrame(table, columns=list("abcd"))
    if kind == "parquet in one group" and int(pa.__version__.split(".")[0]) < 17:
        pytest.skip("pyarrow 16 holds the columns of a whole group")
    if "parquet" in kind:
        size = 20_000 if kind == "parquet" else len(frame)
        source = written(tmp_path / "x.parquet", "to_parquet", frame, row_group_size=size, use_dictionary=False)
    elif kind == "csv":
        source = written(tmp_path / "x.csv", "to_csv", frame.round(2), index=False)
    elif kind == "memmap":
        np.save(tmp_path / "x.npy", table)
        source = np.load(tmp_path / "x.npy", mmap_mode="r")
    else:
        source = da.arange(120_000, chunks=5_000)
    sizes = [len(block) for block in RecordBlocks(source, rows_per_block=5_000)]  # imports and caches
    assert sum(sizes) == len(table) and max(sizes) <= 5_000
    arrow, most = pa.total_allocated_bytes(), 0
    tracemalloc.start()
    try:
        for _ in RecordBlocks(source, rows_per_block=5_000):
            most = max(most, pa.total_allocated_bytes() - arrow)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < table.nbytes / 2 and most < table.nbytes / 2  # a block is 1/24 or less


def test_dask_computes_a_partition_at_a_time():
    running, most = [0], [0]

    def chunk(block):
        running[0] += 1
        most[0] = max(most[0], running[0])
        return block + 0.0

    source = da.from_array(X, chunks=(100, 3)).map_blocks(chunk, dtype=float, meta=np.zeros((0, 3)))
    for given in (source, labelled(source)):
        blocks = iter(RecordBlocks(given))
        running[0], most[0] = 0, 0
        for _ in blocks:
            running[0] = 0
        assert most[0] == 1


def union_of(numbers):
    return pa.UnionArray.from_sparse(pa.array(np.zeros(len(numbers), dtype=np.int8)), [pa.array(numbers)])


def with_value(value, row=1_700):
    bad = FRAME.astype(object)
    bad.iloc[row, 1] = value
    return bad


BAD = {
    "text": (with_value("x"), TypeError, "X must be numeric"),
    "dates": (pd.DataFrame({"a": pd.date_range("2020", periods=9)}), TypeError, "X must be numeric"),
    "a union": (pa.table({"a": union_of(X[:, 0])}), TypeError, "X must be numeric, got values of other types"),
    "a huge integer": (with_value(10**400), TypeError, "X must be numeric"),
    "complex": (X + 1j, TypeError, "X must be numeric"),
    "NaN": (
        with_value(np.nan),
        ValueError,
        r"X must be finite, got nan in column 'b' \(row 1700, counted from 0\); leave",
    ),
    "infinite": (
        with_value(-np.inf, 0),
        ValueError,
        r"X must be finite, got -inf in column 'b' \(row 0, counted from 0\); leave",
    ),
    "no rows": (FRAME[:0], ValueError, r"X must have at least one row and one column, got shape \(0, 3\)"),
    "no columns": (np.zeros((5, 0)), ValueError, "X must have at least one row and one column"),
    "nothing": ([], ValueError, "X must have at least one row and one column"),
    "constant column": (
        FRAME.assign(b=2.0),
        ValueError,
        "X must vary in every column, got a constant column 'b'; drop it",
    ),
    "repeated names": (FRAME.set_axis(["a", "b", "a"], axis=1), ValueError, "X must have distinct column names"),
    "ragged": ([[1.0], [1.0, 2.0]], ValueError, "X must have rows of equal length"),
    "three dimensions": (np.zeros((4, 2, 2)), ValueError, r"one row per record .* got shape \(4, 2, 2\)"),
    "three dimensions in dask": (da.zeros((4, 2, 2)), ValueError, r"one row per record .* got shape \(4, 2, 2\)"),
    "sparse": (sparse.csr_array(X), TypeError, r"a row for each record, got csr_array; X.toarray\(\) is one"),
    "a dictionary": ({"a": [1.0]}, TypeError, "a row for each record, got dict; make a data frame of it"),
    "a scalar": (3.0, ValueError, "one row per record"),
    "no such file": ("nowhere.csv", FileNotFoundError, "X must be an existing file, got 'nowhere.csv'"),
    "wrong suffix": ("records.xlsx", ValueError, "X must be a path that ends in .csv or .parquet"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_refused_in_memory_is_refused_in_blocks_with_the_same_words(case, tmp_path):
    source, kind, words = BAD[case]
    sources = [source]
    if case in ("NaN", "infinite", "constant column", "no rows"):
        numbers = source.astype(float)
        sources.append(dd.from_pandas(numbers, npartitions=4))
        sources.append(written(tmp_path / "x.parquet", "to_parquet", numbers, row_group_size=500))
        sources.append(written(tmp_path / "x.csv", "to_csv", numbers, index=False))
    for given in sources:
        with pytest.raises(kind, match=words) as caught:
            RecordBlocks(given, rows_per_block=100)
        assert type(caught.value) is kind
    with pytest.raises(kind, match=words):
        read_records(source)


@pytest.mark.parametrize("n_rows", [1, 2])
def test_a_column_is_constant_only_over_all_blocks(n_rows):
    values = np.repeat([[1.0, 2.0], [3.0, 4.0]], n_rows, axis=0)
    assert RecordBlocks(values, rows_per_block=n_rows).n_records == 2 * n_rows
    assert RecordBlocks([[1.0, 2.0]]).n_records == 1  # one record has nothing to vary from


def test_parts_with_other_columns_are_refused(tmp_path):
    with pytest.raises(ValueError, match="X must have the same columns in every part"):
        RecordBlocks([FRAME, FRAME[["a", "c"]]])
    with pytest.raises(ValueError, match="X must have the same columns in every part"):
        RecordBlocks([X, X[:, :2].copy()])
    with pytest.raises(ValueError, match="X must have the same columns in every part"):
        RecordBlocks([FRAME, FRAME[["c", "b", "a"]]])


@pytest.mark.parametrize(
    "text, place",
    [
        ("a,b\n1,2\n2,x\n", "line 3"),
        ("a,b\n1,2\n2,inf\n", "row 1,"),
        ("a,c\n1,2\n", "every part"),
        ("a,b\n1\n", "line 2"),
    ],
)
def test_errors_about_one_of_many_files_say_which_and_where_in_it(tmp_path, text, place):
    paths = [tmp_path / "first.csv", tmp_path / "second.csv"]
    paths[0].write_text("a,b\n1,2\n3,4\n5,6\n")
    paths[1].write_text(text)
    for parts in (paths, [pd.DataFrame({"a": [1.0], "b": [2.0]}), *paths]):
        for n_rows in (1, 100):
            with pytest.raises((TypeError, ValueError), match=place) as raised:
                RecordBlocks(parts, rows_per_block=n_rows)
            assert str(raised.value).count("second.csv") == 1 and "first.csv" not in str(raised.value)


def test_rows_of_arrays_are_counted_over_all_parts():
    with pytest.raises(ValueError, match=r"row 3, counted from 0"):
        RecordBlocks([X[:2], np.where([[False], [True]], np.nan, X[2:4])])


def test_folders_and_files_that_cannot_be_read(tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"X must be a folder that holds \.parquet files"):
        RecordBlocks(tmp_path / "empty")
    FRAME.assign(a=FRAME["a"] > 0).to_parquet(tmp_path / "hive", partition_cols=["a"])  # a column in the folders' names
    with pytest.raises(ValueError, match="none in folders inside it"):
        RecordBlocks(tmp_path / "hive")
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    for read in (RecordBlocks, read_records):
        with pytest.raises(ValueError, match=r"X must be a readable table, got '.*a\.parquet'"):
            read(tmp_path / "a.parquet")
    np.savetxt(tmp_path / "d.csv", X, delimiter=",")
    with pytest.raises(ValueError, match="header line of column names"):
        RecordBlocks(tmp_path / "d.csv")
    FRAME.to_parquet(tmp_path / "e.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"a .parquet file needs pyarrow"):
        RecordBlocks(tmp_path / "e.parquet")


@pytest.mark.parametrize("write, name", [("to_parquet", "x.parquet"), ("to_csv", "x.csv")])
def test_a_file_that_changes_between_passes_is_refused(write, name, tmp_path):
    path = tmp_path / name
    index = {"index": False}
    blocks = RecordBlocks(written(path, write, **index), rows_per_block=500)
    changes = [
        (FRAME.iloc[[*range(len(X)), 0]], "same number of rows at every pass, got more than at first"),
        (FRAME[:-1], "same number of rows at every pass, got fewer than at first"),
        (FRAME.set_axis(["a", "b", "d"], axis=1), r"X must have columns \('a', 'b', 'c'\) at every pass, got"),
        (FRAME.assign(c=np.nan), "X must be finite, got nan"),
    ]
    for frame, words in changes:
        written(path, write, frame, **index)
        with pytest.raises(ValueError, match=words):
            sketch_sums(blocks, FRAMES)
    written(path, write, **index)
    assert np.array_equal(sketch_sums(blocks, FRAMES), SUMS)  # no trace of the failed passes
    os.remove(path)
    with pytest.raises(FileNotFoundError, match="X must be an existing file"):
        list(blocks)


def test_blocks_are_copies_and_show_no_record():
    records = X[:100].copy()
    blocks = RecordBlocks(records, rows_per_block=30)
    for block in blocks:
        block[:] = 0.0
    assert np.array_equal(records, X[:100])
    assert repr(blocks) == "<RecordBlocks: 3 features, at most 30 rows to a block>"
    with pytest.raises(AttributeError):
        blocks.n_records = 5
    assert set(blocks.__slots__) == {"source", "feature_names", "n_records", "columns", "rows_per_block"}


def test_rows_per_block_is_checked():
    with pytest.raises(ValueError, match="rows_per_block must be at least 1, got 0"):
        RecordBlocks(X, rows_per_block=0)
    with pytest.raises(TypeError, match="rows_per_block must be an integer"):
        RecordBlocks(X, rows_per_block=1e5)


@pytest.mark.parametrize("many", [False, True])
def test_blocks_are_read_from_where_they_were_given(many, tmp_path, monkeypatch):
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
    pd.DataFrame({"a": [1.0, 2.0, 3.0]}).to_csv(tmp_path / "here" / "x.csv", index=False)
    pd.DataFrame({"a": [7.0, 8.0, 9.0]}).to_csv(tmp_path / "there" / "x.csv", index=False)
    monkeypatch.chdir(tmp_path / "here")
    parts = ["x.csv"]
    blocks = RecordBlocks(parts if many else "x.csv")
    monkeypatch.chdir(tmp_path / "there")
    parts.append("x.csv")
    assert np.concatenate(list(blocks)).ravel().tolist() == [1.0, 2.0, 3.0]


def test_records_outside_the_bounds_are_clipped_in_blocks_as_in_the_array():
    wide = 3 * CLUSTERS.to_numpy()
    ours, whole = (
        dpg.fit_gmm(rows, 2, bounds=(-4.0, 4.0), **BUDGET) for rows in (RecordBlocks(wide, rows_per_block=300), wide)
    )
    assert (np.abs(wide) > 4).mean() > 0.2
    assert all(np.array_equal(ours.raw[name], whole.raw[name], equal_nan=True) for name in whole.raw)


@pytest.mark.parametrize("how", ["swapped", "one swapped", "one empty"])
def test_partitions_with_their_columns_in_another_order_keep_their_names(how):
    """Dask believes what it is told of the columns, and concatenates by name; its older releases refuse."""
    right, other = FRAME, FRAME[list(NAMES[::-1])]
    parts = {
        "swapped": [other[:500], other[500:]],
        "one swapped": [right[:500], other[500:]],
        "one empty": [right[:0], other],
    }
    lazy = dd.from_map(lambda i: parts[how][i], [0, 1], meta=right.iloc[:0])
    try:
        lazy.compute()
    except ValueError:
        for read in (read_records, RecordBlocks):
            with pytest.raises(ValueError, match=r"X must have the columns .* in every partition, got others: .* meta"):
                read(lazy)
        return
    blocks = RecordBlocks(lazy)
    assert blocks.feature_names == NAMES and np.concatenate(list(blocks)).tolist() == right.to_numpy().tolist()
    for columns in (None, ["c", "a"]):
        records, names = read_records(lazy, columns=columns)
        assert names == tuple(columns or NAMES)
        assert records.tolist() == right[list(names)].to_numpy().tolist()


def test_partitions_that_are_no_tables_are_refused():
    lazy = dd.from_pandas(FRAME, npartitions=2)
    wrong = lazy.map_partitions(lambda part: part.to_numpy(), meta=lazy._meta)
    for read in (read_records, RecordBlocks):
        with pytest.raises(ValueError, match=r"in every partition|broadcast"):  # the second is an old Dask's
            read(wrong)


@pytest.mark.parametrize("columns", [None, ["b", "c"]])
def test_partitions_with_other_columns_are_refused(columns):
    parts = [FRAME[:500], FRAME[500:].rename(columns={"b": "d"})]
    lazy = dd.from_map(lambda i: parts[i], [0, 1], meta=FRAME.iloc[:0])
    with pytest.raises(ValueError, match=r"X must have the columns .* in every partition, got"):
        read_records(lazy, columns=columns)
    with pytest.raises(ValueError, match=r"X must have the columns .* in every partition, got"):
        RecordBlocks(lazy)


def test_a_bag_is_no_table():
    import dask.bag as db

    with pytest.raises(TypeError, match="X must be an array or data frame of Dask, got a Bag"):
        RecordBlocks(db.from_sequence([[1.0], [2.0]]))


def test_paths_of_any_kind_are_paths(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1.0,2.0\n3.0,5.0\n")
    with os.scandir(tmp_path) as entries:
        path = next(entries)  # no Path, and no text
    assert read_records(path)[0].tolist() == np.concatenate(list(RecordBlocks([path]))).tolist() == [[1, 2], [3, 5]]


def test_a_file_that_is_given_twice_is_refused(tmp_path):
    path, link, other = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "c.csv"
    path.write_text("x\n1.0\n2.0\n")
    other.write_text("x\n1.0\n2.0\n")  # equal rows are no reason: people may be alike
    link.hardlink_to(path)
    for again in (path, link):
        with pytest.raises(ValueError, match="every file once"):
            RecordBlocks([path, other, again])
    assert RecordBlocks([path, other]).n_records == 4
    folder = tmp_path / "folder"
    folder.mkdir()
    pd.DataFrame({"x": [1.0, 2.0]}).to_parquet(folder / "a.parquet")
    assert RecordBlocks(folder).n_records == 2
    (folder / "b.parquet").symlink_to(folder / "a.parquet")
    with pytest.raises(ValueError, match="every file once"):
        RecordBlocks(folder)


def test_a_folder_that_may_not_be_read_is_told_so(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # who runs tests may be root, to whom all is open
    with pytest.raises(PermissionError, match="X must be a folder that can be read, got"):
        RecordBlocks(tmp_path)
