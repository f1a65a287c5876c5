"""Tables in the text of a query."""

from __future__ import annotations

import pytest

from goqueue.spark.pipelines.sql_tables import read_query


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT * FROM orders", ["orders"]),
        ("select * from Orders o", ["Orders"]),
        ("SELECT * FROM a, b x, c AS y WHERE a.id IN (1, d)", ["a", "b", "c"]),
        ("SELECT a, b FROM t GROUP BY a, b ORDER BY x, y", ["t"]),
        ("SELECT * FROM a JOIN b ON a.x = b.x LEFT OUTER JOIN c USING (x)", ["a", "b", "c"]),
        ("SELECT * FROM (SELECT * FROM inside) x JOIN outside", ["inside", "outside"]),
        ("SELECT * FROM a WHERE id IN (SELECT id FROM b)", ["a", "b"]),
        ("WITH x AS (SELECT * FROM a), y (p, q) AS (SELECT * FROM x) SELECT * FROM y", ["a"]),
        ("SELECT * FROM a JOIN b ON a.x = b.x AND f(a.y, b.y), c WHERE z", ["a", "b", "c"]),
        ("SELECT * FROM a UNION ALL SELECT * FROM b", ["a", "b"]),
        ("FROM a |> WHERE x > 1 |> JOIN b", ["a", "b"]),
        ("SELECT * FROM `odd name`", ["odd name"]),
        ("SELECT 'FROM no' AS x, \"FROM neither\" FROM a -- FROM not", ["a"]),
        ("SELECT /* FROM no */ 1 FROM a", ["a"]),
        ("SELECT 'it''s FROM x', 'a\\' FROM y' FROM a", ["a"]),
        ("SELECT extract(hour FROM at), trim(BOTH ' ' FROM n) FROM a", ["a"]),
        ("SELECT substring(n FROM 2 FOR 3) FROM a", ["a"]),
        ("SELECT * FROM a WHERE x IS DISTINCT FROM y", ["a"]),
        ("SELECT * FROM a LATERAL VIEW explode(items) t AS item", ["a"]),
        ("SELECT * FROM a, LATERAL (SELECT * FROM b)", ["a", "b"]),
        ("SELECT * FROM range(10), a", ["a"]),
        ("SELECT * FROM VALUES (1), (2)", []),
        ("SELECT * FROM STREAM orders", ["orders"]),
        ("TABLE orders", ["orders"]),
        ("SELECT t.from, t.join FROM t", ["t"]),
        ("SELECT 1", []),
        ("SELECT * FROM a JOIN A", ["a"]),
    ],
)
def test_the_tables_of_a_query_are_found(sql: str, tables: list[str]) -> None:
    found = read_query(sql)
    assert list(found.tables) == tables
    assert found.is_certain


def test_a_name_of_several_parts_is_a_table_of_a_catalogue() -> None:
    found = read_query("SELECT * FROM lake.db.orders JOIN parquet.`/x/y` p ON true JOIN a")
    assert found.qualified == ("lake.db.orders", "parquet./x/y")
    assert found.tables == ("a",)


@pytest.mark.parametrize(
    "sql", ["SELECT 'x FROM a", "SELECT (1 FROM a", "SELECT 1) FROM a", "/* x"]
)
def test_what_is_not_closed_is_not_certain(sql: str) -> None:
    assert not read_query(sql).is_certain


@pytest.mark.parametrize(
    ("sql", "is_aggregate"),
    [
        ("SELECT a, count(*) FROM t GROUP BY a", True),
        ("SELECT max(a) FROM t", True),
        ("SELECT a, count FROM t", False),
        ("SELECT a FROM t WHERE a = ANY (SELECT 1)", False),
        ("SELECT 'GROUP BY' FROM t", False),
        ("SELECT sum(a) OVER (PARTITION BY b) FROM t", False),
    ],
)
def test_a_query_that_counts_is_told_from_one_that_does_not(sql: str, is_aggregate: bool) -> None:
    assert read_query(sql).is_aggregate is is_aggregate


def test_unclosed_quotes_take_no_more_time_than_they_are_long() -> None:
    assert not read_query("'\\'" * 20_000).is_certain
    assert not read_query("/*" * 20_000).is_certain
