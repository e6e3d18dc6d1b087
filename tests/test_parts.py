"""Parts of the thorough tests: none is left out of all of them."""

import pytest

from tests.builders.parts import in_part


@pytest.mark.parametrize("n", [1, 4, 7])
def test_every_test_is_in_one_part(n):
    names = [f"tests/a/test_b.py::test_c[{i}]" for i in range(1_000)]
    sizes = [[in_part(name, f"{k + 1}/{n}") for name in names] for k in range(n)]
    assert all(sum(ones) == 1 for ones in zip(*sizes, strict=True))
    assert min(map(sum, sizes)) > 1_000 / n / 2


@pytest.mark.parametrize("part", ["", "4", "0/4", "5/4", "1/0", "-1/4", "1/4/2", "a/b"])
def test_what_is_no_part_is_refused(part):
    with pytest.raises(pytest.UsageError, match="--part must be k/n with k of at most n"):
        in_part("tests/a/test_b.py::test_c", part)
