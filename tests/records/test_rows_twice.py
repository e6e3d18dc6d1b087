"""Tables of which rows are there twice are refused; equal rows are not, as people may be alike."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray

from pm_dpgmm.records.blocks import RecordBlocks


def test_an_array_that_is_given_twice_is_refused():
    x = np.arange(12.0).reshape(6, 2)
    table = pd.DataFrame(x, columns=["a", "b"])
    for parts in ([x, x], [x, x[:2]], [x[::2], x], [x[:4], x[3:]], [table, table]):
        with pytest.raises(ValueError, match="every row once, got rows of table 0 again in table 1"):
            RecordBlocks(parts)
    for parts in ([x, x.copy()], [x[:3], x[3:]], [x[::2], x[1::2]], [table, table.copy()]):  # people may be alike
        assert RecordBlocks(parts).n_records in (6, 12)
    whole, middle = np.arange(40.0).reshape(20, 2), slice(8, 10)
    with pytest.raises(ValueError, match="rows of table 2 again in table 4"):
        RecordBlocks([x, whole[:4], whole[4:18], whole[18:], whole[middle]])
    with pytest.raises(ValueError, match="X must have one row per record"):
        RecordBlocks(np.float64(0.5))
    for empty, full in ((x[:0], x), (table[:0], table)):  # days without anybody
        assert RecordBlocks([empty, full, empty]).n_records == 6


def in_labels(x):
    return xarray.DataArray(x, dims=("row", "feature"), coords={"feature": ["a", "b"]})


KINDS = {
    "pandas": lambda x: pd.DataFrame(x, columns=["a", "b"]),
    "polars": lambda x: pl.DataFrame({"a": x[:, 0], "b": x[:, 1]}),
    "arrow": lambda x: pa.table({"a": x[:, 0], "b": x[:, 1]}),
    "xarray": in_labels,
}


@pytest.mark.parametrize("kind", KINDS)
def test_frames_that_share_rows_without_a_copy_are_refused(kind):
    x = np.arange(1200.0).reshape(600, 2)
    table = KINDS[kind](x)

    def rows(start, stop):
        if kind == "arrow":
            return table.slice(start, stop - start)
        return table.iloc[start:stop] if kind == "pandas" else table[start:stop]

    for parts in ([rows(0, 300), rows(299, 600)], [table, rows(0, 600)], [rows(5, 6), table]):
        with pytest.raises(ValueError, match="every row once, got rows of table 0 again in table 1"):
            RecordBlocks(parts)
    for parts in ([rows(0, 300), rows(300, 600)], [KINDS[kind](x), KINDS[kind](x.copy())]):
        assert RecordBlocks(parts).n_records in (600, 1200)


def test_a_column_that_frames_have_in_common_is_no_row_in_common():
    site = pa.array(np.arange(300.0) % 2)
    days = [pa.table({"site": site, "weight": np.arange(300.0) + day}) for day in range(3)]
    assert RecordBlocks(days).n_records == 900
    with pytest.raises(ValueError, match="rows of table 1 again in table 3"):
        RecordBlocks([*days, days[1].slice(10, 5)])
    plain = np.arange(600.0).reshape(300, 2)
    with pytest.raises(ValueError, match="rows of table 0 again in table 1"):
        RecordBlocks([in_labels(plain), pd.DataFrame(plain, columns=["a", "b"], copy=False)])


def test_maps_of_one_file_are_compared_by_their_places_in_it(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(1200.0).reshape(600, 2))
    (tmp_path / "b.npy").symlink_to(tmp_path / "a.npy")
    np.save(tmp_path / "other.npy", np.arange(1200.0).reshape(600, 2))
    a, b, other = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in ("a", "b", "other"))
    for parts in ([a, b], [a[:300], b[299:]], [a[::2], np.asarray(b)[100:101]], [a[5:], a[:6]]):
        with pytest.raises(ValueError, match="every row once, got rows of table 0 again in table 1"):
            RecordBlocks(parts)
    for parts in ([a, other], [a[:300], b[300:]], [a[::2], b[1::2]]):
        assert RecordBlocks(parts).n_records in (600, 1200)
    raw = tmp_path / "raw"
    np.arange(1200.0).tofile(raw)
    late, early = (np.memmap(raw, dtype=float, mode="r", offset=8 * start, shape=(300, 2)) for start in (600, 0))
    assert RecordBlocks([late, early]).n_records == 600  # where a map begins is no place of the file
    raw.unlink()
    assert RecordBlocks([late, early]).n_records == 600  # a map outlives its file
    with pytest.raises(ValueError, match="every row once"):
        RecordBlocks([late, late[:3]])
