"""JSON from anywhere: what is refused begins right after what any file of ours needs."""

import pytest

from pm_dpgmm.files.untrusted_json import LARGEST_INTEGER, MOST_DEPTH, check_depth, parsed


@pytest.mark.parametrize("number", [0, 10**17, -(10**17), 10**18, LARGEST_INTEGER, -LARGEST_INTEGER])
def test_integers_of_64_bits_are_read(number):
    assert parsed(f"[{number}]") == [number]


@pytest.mark.parametrize("number", [LARGEST_INTEGER + 1, -LARGEST_INTEGER - 1, 10**19, 10**20, -(10**20), 10**3_000])
def test_larger_integers_are_refused(number):
    with pytest.raises(ValueError, match="integers must fit 64 bits, got "):
        parsed(f"[{number}]")


@pytest.mark.parametrize("inner", [1.0, []])
def test_lists_and_mappings_are_nested_so_deep_and_no_deeper(inner):
    value = inner
    for i in range(MOST_DEPTH - isinstance(inner, list)):
        value = {"a": value} if i % 2 else [value, 0]
    check_depth(value, name="a file")
    with pytest.raises(ValueError, match=f"a file must be nested at most {MOST_DEPTH} deep, got more"):
        check_depth([value], name="a file")
