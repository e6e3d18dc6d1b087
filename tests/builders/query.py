"""A table that a database has not made yet, as DuckDB's relations are."""


class Query:
    columns = ("a", "b")
    shape = (6_000, 2)

    def __len__(self):
        return 6_000

    def __getitem__(self, place):
        raise TypeError("one column name, not by slice")
