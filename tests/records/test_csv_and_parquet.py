"""From a file or table to an array, record by record: no row's bits depend on another row, and misread files are refused."""

import builtins
import codecs
import gzip
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xarray
from hypothesis import given, settings, strategies as st

from pm_dpgmm.records.blocks import RecordBlocks
from pm_dpgmm.records.columns import floats_of, numbers_of
from pm_dpgmm.records.csv_and_parquet import file_blocks, labels_of_file
from pm_dpgmm.records.reading import read_records
from tests.builders.examples import examples
from tests.builders.query import Query
from tests.builders.symbolic import Symbolic

WORDS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
PLAIN = st.one_of(
    st.integers(-(10**25), 10**25).map(str),
    st.integers(2**53, 2**63).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.decimals(-(10**20), 10**20, places=17).map(str),
    st.sampled_from(["1e5", "1E-300", "+7", ".5", "5.", "-0", "0009", "9" * 40, "0." + "1" * 60, "1.0", *WORDS]),
)
TEXT = st.tuples(PLAIN, st.sampled_from(["{}", " {}", "{} ", '"{}"'])).map(lambda pair: pair[1].format(pair[0]))
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def number(text):
    word = text.strip('" ')
    return WORDS[word] if word in WORDS else float(word)


def blocks(source, n_rows):
    return np.concatenate(list(RecordBlocks(source, rows_per_block=n_rows)))


def is_read_as(expected, source, *, n_rows):
    """The bits of ``expected``, read whole and in blocks."""
    expected = np.array(expected)
    return all(
        found.dtype == float and found.tobytes() == expected.tobytes()
        for found in (read_records(source)[0], blocks(source, n_rows))
    )


@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=12), other=st.tuples(TEXT, TEXT), data=st.data())
def test_every_number_of_a_csv_file_is_the_float_nearest_to_its_own_text(rows, other, data, tmp_path_factory):
    """Hence replacing one record moves no bit of another; two rows keep the columns from being constant."""
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    end, place = data.draw(ENDS), data.draw(st.integers(0, len(rows) - 1))
    n_rows = data.draw(st.integers(1, 5))
    for table in (rows, [*rows[:place], other, *rows[place + 1 :]], [*rows[:place], *rows[place + 1 :]]):
        lines = [("a", "b"), ("0", "0"), *table, ("1", "1")]
        path.write_text(end.join(map(",".join, lines)) + data.draw(st.sampled_from(["", end, end + end])), newline="")
        assert is_read_as([list(map(number, row)) for row in lines[1:]], path, n_rows=n_rows)


@pytest.mark.parametrize("cell", ["1.5", "True", "1e3", str(10**30), '"7"'])
def test_one_cell_of_another_kind_moves_no_other_value(cell, tmp_path):
    """With pandas 2.2 a 1.5 among integers sent the column to another parser, 3 units in the last place away."""
    whole = [int(2.0**55 * (1 + k / 7)) + k for k in range(3_000)]
    path = tmp_path / "x.csv"
    for texts in ([*map(str, whole)], [cell, *map(str, whole[1:])]):
        path.write_text("a\n" + "\n".join(texts))
        assert is_read_as([[number(text)] for text in texts], path, n_rows=1_000)


ARROW = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.int8(): st.integers(-128, 127),
    pa.float64(): st.floats(allow_nan=False, allow_infinity=False),
    pa.float32(): st.floats(allow_nan=False, allow_infinity=False, width=32),
    pa.bool_(): st.booleans(),
    pa.decimal128(38, 4): st.decimals(-(10**30), 10**30, places=4),
    pa.dictionary(pa.int32(), pa.int64()): st.integers(-(2**63), 2**63 - 1),
    pa.dictionary(pa.int32(), pa.float64()): st.floats(allow_nan=False, allow_infinity=False),
}


@given(data=st.data())
def test_every_number_of_a_parquet_file_or_arrow_table_is_the_float_nearest_to_its_own_value(data, tmp_path_factory):
    types = data.draw(st.lists(st.sampled_from(list(ARROW)), min_size=1, max_size=4))
    row = st.tuples(*(ARROW[kind] for kind in types))
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    place, names = data.draw(st.integers(0, len(rows) - 1)), [f"c{j}" for j in range(len(types))]
    path = tmp_path_factory.mktemp("parquet") / "x.parquet"
    for middle in (rows, [*rows[:place], data.draw(row), *rows[place + 1 :]]):
        ends = [[type_of(kind)(value) for kind in types] for value in (0, 1)]
        table = [ends[0], *middle, ends[1]]
        arrow = pa.table(
            [arrow_column(v, kind) for v, kind in zip(zip(*table, strict=True), types, strict=True)], names
        )
        pq.write_table(arrow, path, row_group_size=data.draw(st.integers(1, 9)))
        expected = [list(map(float, row)) for row in table]
        for source in (path, arrow):
            assert is_read_as(expected, source, n_rows=data.draw(st.integers(1, 5)))
        assert read_records(arrow)[1] == RecordBlocks(arrow).feature_names == tuple(names)


def arrow_column(values, kind):
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    column = pa.array(values, plain)
    return column.dictionary_encode() if plain is not kind else column


def type_of(kind):
    return bool if kind == pa.bool_() else Decimal if pa.types.is_decimal(kind) else int


# The type of a data frame's column in pandas, and what it may hold.
PANDAS = {
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "float32": st.floats(allow_nan=False, allow_infinity=False, width=32),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "bool": st.booleans(),
    "Int64": st.integers(-(2**63), 2**63 - 1),
    "Float64": st.floats(allow_nan=False, allow_infinity=False),
    "boolean": st.booleans(),
    "category": st.integers(-(2**63), 2**63 - 1),
    "int64[pyarrow]": st.integers(-(2**63), 2**63 - 1),
    "object": st.one_of(
        st.integers(-(10**30), 10**30),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        st.decimals(-(10**20), 10**20, places=9),
        st.integers(-(2**63), 2**63 - 1).map(np.int64),
        st.floats(allow_nan=False, allow_infinity=False, width=32).map(np.float32),
    ),
}


@given(data=st.data())
def test_every_number_of_a_data_frame_is_the_float_nearest_to_its_own_entry(data):
    types = data.draw(st.lists(st.sampled_from(list(PANDAS)), min_size=1, max_size=4))
    row = st.tuples(*(PANDAS[kind] for kind in types))
    rows = data.draw(st.lists(row, min_size=1, max_size=12))
    place = data.draw(st.integers(0, len(rows) - 1))
    for middle in (rows, [*rows[:place], data.draw(row), *rows[place + 1 :]]):
        ends = [[bool(value) if "bool" in kind else value for kind in types] for value in (0, 1)]
        table = [ends[0], *middle, ends[1]]
        columns = [pd.Series(v, dtype=kind) for v, kind in zip(zip(*table, strict=True), types, strict=True)]
        frame = pd.concat(columns, axis=1)
        assert is_read_as([list(map(float, row)) for row in table], frame, n_rows=data.draw(st.integers(1, 5)))


@settings(max_examples=examples(50))
@given(rows=st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.floats(-1e9, 1e9, width=32)), min_size=1))
def test_a_column_of_polars_is_read_by_its_own_type(rows):
    rows = [(0, 0.0), *rows, (1, 1.0)]
    wide, narrow = zip(*rows, strict=True)
    frame = pl.DataFrame({"a": pl.Series(wide, dtype=pl.Int64), "b": pl.Series(narrow, dtype=pl.Float32)})
    assert is_read_as([[float(a), float(np.float32(b))] for a, b in rows], frame, n_rows=3)


@pytest.mark.parametrize("several", [pl.Struct({"p": pl.Float64, "q": pl.Float64}), pl.Array(pl.Float64, 2)])
@pytest.mark.parametrize("read", [read_records, RecordBlocks])
def test_a_column_of_several_numbers_is_refused_before_anything_is_spent(several, read):
    """As one array it has more columns than names, which only the method would notice."""
    cells = [{"p": 1.0, "q": 2.0}, {"p": 3.0, "q": 5.0}] if several == pl.Struct else [[1.0, 2.0], [3.0, 5.0]]
    frame = pl.DataFrame({"a": [0.0, 1.0], "both": pl.Series(cells, dtype=several)})
    with pytest.raises(TypeError, match="X must have one number for each record in a column"):
        read(frame)


@pytest.mark.parametrize("labels", [["NA", "NA.1"], ["null", "null_duplicated_0"], ["None"], ["NULL", "."]])
def test_a_first_record_without_a_value_names_no_columns(labels):
    """As pandas and polars name columns after the first line of a file without a header."""
    with pytest.raises(ValueError, match="X must have names for its columns, got words for missing values alone"):
        read_records(pd.DataFrame(np.eye(len(labels) + 1)[:, : len(labels)], columns=labels))
    assert read_records(pd.DataFrame(np.eye(2), columns=["NA", "K"]))[1] == ("NA", "K")


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="older polars has no integers of 128 bits")
def test_integers_of_128_bits_are_read_as_the_nearest_floats():
    wide = [0, 2**100 + 1, -(2**90) - 7, 3]
    records, names = read_records(pl.DataFrame({"a": pl.Series(wide, dtype=pl.Int128)}))
    assert names == ("a",) and records.ravel().tolist() == [float(v) for v in wide]
    with pytest.raises(ValueError, match=r"X must be finite, got nan in column 'a' \(row 1, counted from 0\)"):
        read_records(pl.DataFrame({"a": pl.Series([0, None], dtype=pl.Int128)}))


@pytest.mark.parametrize(
    "read",
    [
        read_records,
        lambda table: (np.concatenate(list(RecordBlocks(table, rows_per_block=2))), RecordBlocks(table).feature_names),
    ],
)
def test_labels_of_an_array_are_names(read):
    values = np.random.default_rng(1).normal(size=(5, 2))
    assert read_records(xarray.Variable(("patient", "lab"), values))[0].tolist() == values.tolist()
    table = xarray.DataArray(values, dims=("patient", "lab"), coords={"lab": ["dia", "sys"]})
    records, names = read(table)
    assert names == ("dia", "sys") and records.tobytes() == values.tobytes()
    assert read(table.drop_vars("lab"))[1] == read(table.assign_coords(lab=[0, 1]))[1] == ("x0", "x1")
    with pytest.raises(ValueError, match="got the text of a number"):
        read(table.assign_coords(lab=["1.5", "2"]))


@given(values=st.lists(st.integers(-(10**30), 10**30), min_size=1), other=st.sampled_from([0.5, True, 10**40, -1]))
def test_integers_of_a_list_are_rounded_alone(values, other):
    """NumPy's type for a list depends on all of it: int64, uint64, object."""
    for table in (values, [other, *values[1:]], [other, *values]):
        assert numbers_of(table).ravel().tobytes() == np.array([float(v) for v in table]).tobytes()


# ------------------------------------------------------------------ what is no such table
def csv(text, encoding="utf-8"):
    return lambda path: path.write_bytes(text.encode(encoding))


REFUSED = {
    "one field more in all lines": (csv("a,b\n1,2,3\n4,5,6\n"), ValueError, "X must have 2 fields in every line, as in its header, got 3 in line 2 of '.*x.csv' .an index without a name"),
    "one field more in one line": (csv("a,b\n1,2\n4,5,6\n"), ValueError, "X must have 2 fields in every line, as in its header, got 3 in line 3 of"),
    "a comma at the end of all lines": (csv("a,b\n1,2,\n4,5,\n"), ValueError, "2 fields in every line, as in its header, got 3 in line 2"),
    "one field fewer": (csv("a,b\n1,2\n4\n5,6\n"), ValueError, "2 fields in every line, as in its header, got 1 in line 3 of '.*x.csv'$"),
    "decimal commas": (csv("a,b\n1,5,2,5\n"), ValueError, "2 fields .* got 4 in line 2 .* or commas in numbers"),
    "quoted decimal commas": (csv('a,b\n"1,5","2,5"\n'), TypeError, "X must be numeric, got a comma in a number in column 'a' .line 2.; write 1000.5"),
    "thousands": (csv('a,b\n1,2\n3,"1,000"\n'), TypeError, "got a comma in a number in column 'b' .line 3."),
    "semicolons": (csv("a;b\n1,5;2,5\n"), ValueError, "X must be separated by commas, got semicolons in the header of '.*x.csv'"),
    "tabs": (csv("a\tb\n1\t2\n"), ValueError, "X must be separated by commas, got tabs in the header"),
    "latin-1": (csv("größe,b\n1,2\n", "latin-1"), ValueError, "X must be text in UTF-8, got other bytes in line 1 of"),
    "latin-1 further on": (csv("a,b\n1,2\n3,é\n", "latin-1"), ValueError, "X must be text in UTF-8, got other bytes in line 3 of"),
    "UTF-16": (csv("a,b\n1,2\n", "utf-16"), ValueError, "X must be text in UTF-8, got other bytes in line 1 of"),
    "compressed": (lambda path: path.write_bytes(gzip.compress(b"a,b\n1,2\n")), ValueError, "X must be text in UTF-8"),
    "no header": (csv("1.5,2\n3,4\n"), ValueError, "X must be a file with a header line of column names, got a number for a name"),
    "no header, and decimal commas": (csv('"1,5";"2,5"\n"1,6";"2,5"\n'), ValueError, "X must be|X must have"),
    "no header, and nothing known of the first": (csv("NA,NULL\n1,2\n3,4\n"), ValueError, "X must be a file with a header line of column names, got words for missing values alone"),
    "an index": (csv(",a\n0,1.5\n1,2.5\n"), ValueError, "X must have a name for every column, got none for column 1 of .* written with its index"),
    "repeated names": (csv("a,b,a\n1,2,3\n2,3,4\n"), ValueError, r"X must have distinct column names, got \['a', 'b', 'a'\]"),
    "empty": (csv(""), ValueError, "X must have a header line and records, got the empty file"),
    "a mark and nothing": (lambda path: path.write_bytes(codecs.BOM_UTF8), ValueError, "got the empty file"),
    "two marks": (lambda path: path.write_bytes(2 * codecs.BOM_UTF8 + b"a,b\n1,2\n"), ValueError, r"X must have names without byte order marks, got '\\ufeffa' in the header of"),
    "only empty lines": (csv("\n\n"), ValueError, "got the empty file"),
    "a header only": (csv("a,b\n"), ValueError, r"X must have at least one row and one column, got shape \(0, 2\)"),
    "an empty line": (csv("a\n1\n\n2\n"), ValueError, "X must have a record in every line, got none in line 3 of .*x.csv' .a missing value"),
    "an empty line between several columns": (csv("a,b\n1,2\n\n3,4\n"), ValueError, "X must have a record in every line, got none in line 3 of '.*x.csv'$"),
    "an empty last line of one column": (csv("a\n1\n2\n\n"), ValueError, "X must have a record in every line, got none in line 4 of .*x.csv' .a missing value"),
    "the same with CRLF": (lambda path: path.write_bytes(b"a\r\n1\r\n2\r\n\r\n"), ValueError, "got none in line 4 of .* .a missing value"),
    "the same with CR": (lambda path: path.write_bytes(b"a\r1\r2\r\r"), ValueError, "got none in line 4 of .* .a missing value"),
    "the same with a name in quotes": (csv('"a"\n"1"\n\n'), ValueError, "got none in line 3 of .* .a missing value"),
    "the same after an empty first line": (csv("\na\n1\n\n"), ValueError, "got none in line 4 of .* .a missing value"),
    "several empty last lines of one column": (csv("a\n1\n\n\n"), ValueError, "got none in line 3 of .* .a missing value"),
    "a header and an empty line": (csv("a\n\n"), ValueError, "got none in line 2 of .* .a missing value"),
    "a last line of spaces": (csv("a\n1\n2\n  \n"), ValueError, r"X must be finite, got nan in column 'a' \(row 2, counted from 0\)"),
    "a last line of spaces without an end": (csv("a\n1\n2\n  "), ValueError, r"X must be finite, got nan in column 'a' \(row 2, counted from 0\)"),
    "a last line of spaces in several columns": (csv("a,b\n1,2\n  \n"), ValueError, "2 fields in every line, as in its header, got 1 in line 3"),
    "an open quote": (csv('a,b\n1,2\n"3,4\n5,6\n'), ValueError, "X must be a readable table, got '.*x.csv': unexpected end"),
    "text after a quote": (csv('a,b\n"1"2,3\n'), ValueError, "X must be a readable table, got '.*x.csv': ',' expected after '\"' .line 2.$"),
    "a comment": (csv("a,b\n1,2\n# made by hand\n"), ValueError, "2 fields in every line, as in its header, got 1 in line 3"),
    "a comment first": (csv("# made, by, hand\na,b\n1,2\n"), ValueError, "3 fields in every line, as in its header, got 2 in line 2"),
    "text": (csv("a,b\n1,2\n2,Ann\n"), TypeError, "X must be numeric, got text in column 'b' .line 3.; leave it out by columns=, fit each level with fit_levels"),
    "dates": (csv("a,b\n1,2020-01-01\n"), TypeError, "X must be numeric, got text in column 'b' .line 2.; .* and a date as days since a public day"),
    "hexadecimal": (csv("a,b\n1,0x10\n"), TypeError, "X must be numeric, got text in column 'b' .line 2."),
    "underscores": (csv("a,b\n1,1_000\n"), TypeError, "X must be numeric, got text in column 'b' .line 2."),
    "digits of another alphabet": (csv("a,b\n1,٣\n"), TypeError, "X must be numeric, got text in column 'b' .line 2."),
    "NUL": (csv("a,b\n1,2\x00\n"), TypeError, "X must be numeric, got text in column 'b' .line 2."),
    "a missing value": (csv("a,b\n1,2\n3,\n"), ValueError, r"X must be finite, got nan in column 'b' \(row 1, counted from 0\); leave such records out, which needs"),
    "NA": (csv("a,b\n1,2\nNA,4\n"), ValueError, r"X must be finite, got nan in column 'a' \(row 1, counted from 0\); leave such records out, which needs"),
    "a missing value in one column": (csv('a\n1\n""\n'), ValueError, r"X must be finite, got nan in column 'a' \(row 1, counted from 0\)"),
    "infinity": (csv("a,b\n1,2\ninfinity,4\n"), ValueError, "X must be finite, got inf in column 'a'"),
    "beyond the largest float": (csv("a,b\n1,2\n3,1e999\n"), ValueError, "X must be finite, got inf in column 'b'"),
    "one record in two lines": (csv('a,b\n"1\n2",3\n'), TypeError, "X must be numeric, got text in column 'a' .line 3."),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_that_would_be_misread_is_refused(case, tmp_path):
    write, kind, words = REFUSED[case]
    write(tmp_path / "x.csv")
    for read in (read_records, RecordBlocks, lambda path: RecordBlocks(path, rows_per_block=1)):
        with pytest.raises(kind, match=words) as caught:
            read(tmp_path / "x.csv")
        assert type(caught.value) is kind and "Ann" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        codecs.BOM_UTF8 + b"a,b\n1,2\n3,4\n",
        b"\n\na,b\n1,2\n3,4\n\n\n",
        b"a,b\r\n1,2\r\n3,4\r\n\r\n",
        b"a,b\r1,2\r3,4",
        b'"a","b"\n"1","2"\n 3 ,4.0 \n',
    ],
    ids=["a byte-order mark", "empty lines at the ends", "CRLF", "CR", "quotes and spaces"],
)
def test_a_file_may_be_written_in_many_ways(content, tmp_path):
    (tmp_path / "x.csv").write_bytes(content)
    records, names = read_records(tmp_path / "x.csv")
    assert names == ("a", "b") and records.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert np.array_equal(blocks(tmp_path / "x.csv", 1), records)


@pytest.mark.parametrize("content", [b"a\n1\n3\n", b"a\n1\n3", b"a\r\n1\r\n3\r\n", b"a\r1\r3\r", b"\n\na\n1 \n3\n"])
def test_the_end_of_the_last_line_is_no_empty_line(content, tmp_path):
    (tmp_path / "x.csv").write_bytes(content)
    assert read_records(tmp_path / "x.csv")[0].tolist() == [[1.0], [3.0]]
    assert RecordBlocks(tmp_path / "x.csv", rows_per_block=1).n_records == 2


def test_a_missing_value_is_refused_in_every_place_of_a_column(tmp_path):
    """In the last one it was left out, which the number of records told."""
    for place in range(4):
        lines = [str(i) if i != place else "" for i in range(4)]
        (tmp_path / "x.csv").write_text("a\n" + "\n".join(lines) + "\n")
        for read in (read_records, RecordBlocks, lambda path: RecordBlocks(path, rows_per_block=1)):
            with pytest.raises(ValueError, match=rf"got none in line {place + 2} of .* \(a missing value\?"):
                read(tmp_path / "x.csv")


def test_capital_letters_end_names_too(tmp_path):
    """One of two parts of a folder, PART.PARQUET, would have been left out without a word."""
    frame = pd.DataFrame({"a": [1.0, 3.0], "b": [2.0, 4.0], "by": ["x", "y"]})
    frame.to_csv(tmp_path / "X.CSV", index=False)
    (tmp_path / "parts").mkdir()
    for name in ("0.parquet", "1.Parquet"):
        frame[["a"]].to_parquet(tmp_path / "parts" / name)
    assert read_records(tmp_path / "X.CSV", columns=["a", "b"])[0].tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert read_records(tmp_path / "parts" / "1.Parquet")[0].tolist() == [[1.0], [3.0]]
    assert labels_of_file(tmp_path / "X.CSV", "by")[0] == ["x", "y"]
    assert np.concatenate(list(RecordBlocks(tmp_path / "parts"))).tolist() == 2 * [[1.0], [3.0]]


@pytest.mark.parametrize("name", ["0.parquet.gz", "b.csv", "part-0004", "linked", "_delta_log", "1.parquet"])
def test_nothing_in_a_folder_of_parts_is_left_out_in_silence(name, tmp_path):
    """Parts with other endings, or in a folder that is a link, were."""
    folder, elsewhere = tmp_path / "parts", tmp_path / "elsewhere"
    folder.mkdir(), elsewhere.mkdir()
    frame = pd.DataFrame({"a": [1.0, 3.0]})
    frame.to_parquet(folder / "0.parquet")
    frame.to_parquet(elsewhere / "1.parquet")
    for beside in ("_SUCCESS", ".0.parquet.crc"):
        (folder / beside).touch()
    (folder / ".ipynb_checkpoints").mkdir()
    assert RecordBlocks(folder).n_records == 2
    if name == "linked":
        (folder / name).symlink_to(elsewhere)
    elif name in ("_delta_log", "1.parquet"):
        (folder / name).mkdir()
    else:
        (folder / name).touch()
    with pytest.raises(ValueError, match=f"none in folders inside it, and no others, got .* with '{name}'"):
        RecordBlocks(folder)


@pytest.mark.parametrize("name", ["parts", "x.csv", "x.parquet"])
def test_folders_are_no_files(name, tmp_path):
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=r"X must be a file, got the folder .*RecordBlocks reads folders of \.parquet"):
        read_records(tmp_path / name)


@pytest.mark.parametrize("read", [read_records, RecordBlocks])
def test_a_file_that_may_not_be_read_is_refused(read, tmp_path, monkeypatch):
    (tmp_path / "x.csv").write_text("a\n1\n2\n")
    monkeypatch.setattr(builtins, "open", lambda *a, **k: (_ for _ in ()).throw(PermissionError("denied")))
    with pytest.raises(ValueError, match=r"X must be a readable table, got .*: denied"):
        read(tmp_path / "x.csv")


def test_missing_values_of_every_kind_are_refused_as_missing(tmp_path):
    tables = {
        "masked": np.ma.masked_greater([[1.0], [9.0], [2.0]], 5),
        "NA": pd.DataFrame({"x0": pd.array([1, None, 2], dtype="Int64")}),
        "NA of a truth value": pd.DataFrame({"x0": pd.array([True, None, False], dtype="boolean")}),
        "None": pd.DataFrame({"x0": [1.5, None, 2]}, dtype=object),
        "null": pl.DataFrame({"x0": [1, None, 2]}),
        "null of a truth value": pl.DataFrame({"x0": [True, None, False]}),
        "null in Arrow": pa.table({"x0": [2**60, None, 1]}),
        "null of a truth value in Arrow": pa.table({"x0": [True, None, False]}),
    }
    for kind, table in tables.items():
        sources = [table]
        if "Arrow" in kind:
            pq.write_table(table, tmp_path / "x.parquet")
            sources.append(tmp_path / "x.parquet")
        for source in sources:
            for read in (read_records, lambda given: RecordBlocks(given, rows_per_block=1)):
                with pytest.raises(
                    ValueError, match=r"X must be finite, got nan in column 'x0' \(row 1, counted from 0\)"
                ):
                    read(source)


def test_names_of_an_arrow_table_are_no_values():
    assert read_records(pa.table({"age": [1.0, 2.0], "bmi": [3, 4]}))[1] == ("age", "bmi")


def test_an_index_that_pandas_stored_is_no_column(tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0]}, index=pd.Index([7, 9], name="patient"))
    frame.to_parquet(tmp_path / "x.parquet")
    assert read_records(tmp_path / "x.parquet")[1] == RecordBlocks(tmp_path / "x.parquet").feature_names == ("a", "b")


@pytest.mark.parametrize(
    "note", [b"no JSON", b"\xff\xfe", b"5", b"[1]", b'{"index_columns": null}', b'{"index_columns": "ab"}']
)
def test_a_note_of_pandas_that_is_none_hides_no_column(note, tmp_path):
    table = pa.table({"a": [1.0, 2.0], "b": [3.0, 5.0]}).replace_schema_metadata({b"pandas": note})
    pq.write_table(table, tmp_path / "x.parquet")
    assert read_records(tmp_path / "x.parquet")[1] == RecordBlocks(tmp_path / "x.parquet").feature_names == ("a", "b")


def test_a_parquet_file_without_columns_says_so(tmp_path):
    path = tmp_path / "x.parquet"
    pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0]}).set_index(["a", "b"]).to_parquet(path)
    with pytest.raises(ValueError, match=r"X must be a table with columns, got an index alone; table\.reset_index\(\)"):
        read_records(path)
    pq.write_table(pa.table({}), path)
    with pytest.raises(ValueError, match="X must be a table with columns, got none in"):
        read_records(path)


def test_columns_of_a_parquet_file_that_hold_no_numbers_are_refused(tmp_path):
    for column in (["x", "y"], pd.to_datetime(["2020-01-01", "2021-01-01"]), [[1.0], [2.0]]):
        pd.DataFrame({"a": [1.0, 2.0], "b": column}).to_parquet(tmp_path / "x.parquet")
        for read in (read_records, RecordBlocks):
            with pytest.raises(TypeError, match="X must be numeric"):
                read(tmp_path / "x.parquet")


# ------------------------------------------------------------------ some of the columns
FRAME = pd.DataFrame({"name": ["Ann", "Bö", "é,\n"], "age": [30, 2**60 + 1, 50], "bmi": [20.5, 31.0, 0.1]})


@pytest.mark.parametrize("suffix", ["csv", "parquet", "frame", "polars"])
def test_only_the_columns_that_are_named_are_read(suffix, tmp_path):
    path = tmp_path / f"x.{suffix}"
    FRAME.to_csv(path, index=False) if suffix == "csv" else FRAME.to_parquet(path)
    source = {"frame": FRAME, "polars": pl.DataFrame(FRAME.to_dict("list"))}.get(suffix, path)
    records, names = read_records(source, columns=["bmi", "age"])
    assert names == ("bmi", "age") and records.tolist() == [[20.5, 30.0], [31.0, float(2**60 + 1)], [0.1, 50.0]]
    for columns, kind, words in [
        (["age", "z"], ValueError, r"columns must be among \('name', 'age', 'bmi'\), got \['z'\]"),
        ([], ValueError, "columns must be among .*, got none"),
        (["age", "age"], ValueError, "columns must be distinct"),
        ("age", TypeError, "columns must be a sequence of column names, got the text 'age'"),
    ]:
        with pytest.raises(kind, match=words):
            read_records(source, columns=columns)


def test_columns_of_an_array_get_the_names_that_are_given():
    assert read_records(np.eye(2), columns=["b", "a"])[1] == ("b", "a")
    assert read_records([[1.0], [2.0]], columns=("a",))[1] == ("a",)
    for columns, kind, words in [
        (["a"], ValueError, r"columns must be 2 distinct names, one for each column of X, got \('a',\)"),
        (["a", "a"], ValueError, "columns must be 2 distinct names"),
        (["a", "1.5"], TypeError, "columns must be texts that are no numbers"),
        (["a", 3], TypeError, "columns must be a sequence of column names"),
        ({"a", "b"}, TypeError, "columns must be a sequence of column names"),
        (Symbolic(ValueError), TypeError, "columns must be a sequence of column names"),
        ({"a": 1, "b": 2}, TypeError, "columns must be a sequence of column names"),
        (3, TypeError, "columns must be a sequence of column names, got 3"),
        ([["a"], ["b"]], TypeError, "columns must be a sequence of column names"),
        ("ab", TypeError, "columns must be a sequence of column names, got the text 'ab'"),
    ]:
        with pytest.raises(kind, match=words):
            read_records(np.eye(2), columns=columns)


def test_a_column_may_be_called_like_a_method(tmp_path):
    frame = pd.DataFrame({"compute": [1.0, 2.0], "column_names": [3.0, 5.0], "shape": [4.0, 7.0], "iloc": [5.0, 9.0]})
    for source in (frame, pl.DataFrame(frame.to_dict("list"))):
        assert read_records(source)[1] == RecordBlocks(source).feature_names == tuple(frame.columns)


def test_blocks_of_a_file_have_names_even_without_rows(tmp_path):
    pd.DataFrame({"a": [1.0], "b": [2]})[:0].to_parquet(tmp_path / "x.parquet")
    ((numbers, names),) = file_blocks(tmp_path / "x.parquet", columns=["b"])
    assert numbers.shape == (0, 1) and names == ("b",)


def test_complex_numbers_in_objects_are_refused():
    with pytest.raises(TypeError, match="X must be numeric"):
        floats_of(np.array([1.0, np.complex128(1j)], dtype=object))


def test_a_lazy_table_is_no_table_yet():
    for read in (read_records, RecordBlocks):
        with pytest.raises(TypeError, match="X must be a table in memory, got LazyFrame; collect it first"):
            read(pl.DataFrame({"a": [1, 2]}).lazy())


def test_a_query_is_no_table_yet():
    for read in (read_records, RecordBlocks):
        with pytest.raises(TypeError, match="X must be a table in memory, got Query; collect it first"):
            read(Query())


def test_types_of_arrow_that_numpy_does_not_have_are_refused_by_name():
    intervals = pd.Series(pd.arrays.ArrowExtensionArray(pa.array([(1, 2, 3)] * 2, pa.month_day_nano_interval())))
    with pytest.raises(TypeError, match="X must be numeric, got values of other types in column 'since'"):
        read_records(pd.DataFrame({"since": intervals, "a": [1.0, 2.0]}))


def test_a_file_whose_footer_lost_rows_is_refused(tmp_path):
    """One bit of a footer made a table of 2,000 rows one of 999, which was fitted."""
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": np.arange(2000.0)}), path, row_group_size=500)
    whole = path.read_bytes()
    row_group, shorter = b"\x16\xe8\x07", b"\x16\xe6\x07"  # 500 and 499 as numbers of 64 bits in a field of a footer
    places = [i for i in range(len(whole)) if whole.startswith(row_group, i)]
    read = []
    for place in places:
        path.write_bytes(whole[:place] + shorter + whole[place + 3 :])
        try:
            read.append(sum(map(len, RecordBlocks(path))))
        except ValueError as error:
            read.append("1,999 of the 2,000 rows" in str(error))
    assert set(read) == {2000, True} and read.count(True) == 4


def test_a_page_with_another_checksum_is_refused(tmp_path):
    """One flipped bit was read as another number, although the file says what it was."""
    path = tmp_path / "x.parquet"
    table = pa.table({"a": np.arange(50.0)})
    pq.write_table(table, path, write_page_checksum=True, use_dictionary=False, compression=None)
    whole = path.read_bytes()
    place = whole.index(np.float64(17.0).tobytes())
    path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    for read in (read_records, RecordBlocks):
        with pytest.raises(ValueError, match="X must be"):
            read(path)
    path.write_bytes(whole)
    assert read_records(path)[0].ravel().tolist() == table["a"].to_pylist()


def test_a_delayed_data_frame_keeps_its_names():
    dask = pytest.importorskip("dask")
    frame = dask.delayed(lambda: pd.DataFrame({"age": [1.0, 2.0]}))()
    assert read_records(frame)[1] == RecordBlocks(frame).feature_names == ("age",)


@pytest.mark.parametrize("header", [(34, 71.5), (34, 178), (-1, 0), (True, False), (np.float64(0.0), 1), (None, 1.0)])
def test_the_first_record_of_a_spreadsheet_without_a_header_is_not_published(header):
    """Readers of spreadsheets make numbers of the first line, not texts."""
    frame = pd.DataFrame(np.random.default_rng(1).normal(size=(50, 2)), columns=pd.Index(list(header), dtype=object))
    for read in (read_records, RecordBlocks):
        with pytest.raises(ValueError, match="X must have names for its columns, got a number or truth value for one"):
            read(frame)
    assert read_records(frame.set_axis([1, 0], axis=1))[1] == ("1", "0")  # the numbers of columns without names


@pytest.mark.parametrize("text", ["1,000.5", "1.000,5", "-12,345", "1,5"])
def test_a_number_with_commas_is_no_name(text):
    with pytest.raises(ValueError, match="X must have names for its columns, got the text of a number"):
        read_records(pd.DataFrame({text: [1.0, 2.0], "b": [2.0, 1.0]}))


def test_no_half_of_a_name_is_a_record(tmp_path):
    """A file with one header line that was read as one with two: the first record was published as names."""
    (tmp_path / "x.csv").write_text("age,height\n37,180\n41,175\n50,169\n")
    table = pd.read_csv(tmp_path / "x.csv", header=[0, 1])
    with pytest.raises(ValueError, match="X must have names for its columns"):
        read_records(table)


@pytest.mark.parametrize(
    "second", [("37", "180"), ("37.5", "tall"), (37, 180), (True, False), ("True", "x"), ("-1e3", "x")]
)
def test_no_half_of_a_name_is_a_record_in_a_file_either(second, tmp_path):
    """Stored, such names are texts of pairs."""
    frame = pd.DataFrame(np.random.default_rng(1).normal(size=(50, 2)))
    frame.columns = pd.MultiIndex.from_arrays([["age", "height"], list(second)])
    frame.to_parquet(tmp_path / "x.parquet")
    for read in (read_records, RecordBlocks):
        with pytest.raises(ValueError, match="X must be a file with a header line of column names, got a number"):
            read(tmp_path / "x.parquet")
    stored = pq.read_table(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="X must have names for its columns, got the text of a number"):
        read_records(stored)
    frame.set_axis(["('a', 'b')", "(log, scaled)"], axis=1).to_parquet(tmp_path / "y.parquet")
    assert read_records(tmp_path / "y.parquet")[1] == ("('a', 'b')", "(log, scaled)")


@pytest.mark.parametrize("unit", ["M", "ns", "s"])
def test_durations_are_no_numbers(unit):
    """Months and nanoseconds lost their unit."""
    with pytest.raises(TypeError, match="X must be numeric"):
        read_records(np.array([np.timedelta64(2, unit), 1.5, 2.5], dtype=object))


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ""])
def test_a_name_that_no_file_can_have_is_told_so(suffix):
    """Where the system looks before the suffix does: it was an error of the system's, in its own words."""
    with pytest.raises((ValueError, FileNotFoundError), match=r"^X must be (a path|an existing file)"):
        read_records("x" * 300 + suffix)


@pytest.mark.skipif(not hasattr(pl, "Int128"), reason="older polars has no integers of 128 bits")
def test_integers_of_128_bits_are_read_from_a_column_alone_too():
    column = pl.Series("a", [2**70, 5], dtype=pl.Int128)
    for X in (column, pl.DataFrame([column])):
        assert read_records(X)[0].tolist() == [[2.0**70], [5.0]]


@pytest.mark.parametrize(
    "column, wanted",
    [
        (pa.array([True, False, True]), [1.0, 0.0, 1.0]),
        (pa.array([Decimal("1.5"), Decimal("2.25")]), [1.5, 2.25]),
        (pa.array([1.0, None, 3.0]), "got nan in column 'x0' .row 1, counted from 0"),
        (pa.array([1, None, 3]), "got nan in column 'x0' .row 1, counted from 0"),
        (pa.array(["a", "b"]), "values of other types"),
        (pa.array([4, 5]).dictionary_encode(), [4.0, 5.0]),
    ],
    ids=["bool", "decimal", "null", "integer null", "text", "dictionary"],
)
def test_a_column_of_arrow_in_one_piece_is_read_as_one_in_several(column, wanted):
    """One in one piece was refused with "rows of equal length, got ragged rows"."""
    for X in (column, pa.chunked_array([column[:1], column[1:]])):
        for read in (lambda X: read_records(X)[0], lambda X: np.concatenate(list(RecordBlocks(X, rows_per_block=2)))):
            if isinstance(wanted, list):
                np.testing.assert_array_equal(read(X), np.array(wanted)[:, None])
            else:
                with pytest.raises((TypeError, ValueError), match=wanted):
                    read(X)
