"""Columns that an expression names and no table has are found without Spark, and no others."""

from __future__ import annotations

import pytest

from goqueue.spark.pipelines.files.loaded import checked
from goqueue.spark.pipelines.files.yaml_file import read_yaml
from goqueue.spark.pipelines.sql_columns import columns_in

SOURCES = """\
name: n
sources:
  orders:
    topic: orders
    format: json
    schema: "id bigint, customer string, amount double, at timestamp,
      items array<struct<sku string>>"
    watermark: {column: at, delay: 1 minute}
  payments:
    topic: payments
    format: json
    schema: "id bigint, paid double, paid_at timestamp, how struct<card string, bank string>"
    watermark: {column: paid_at, delay: 1 minute}
  raw: {topic: raw}
  countries: {csv: ./countries.csv, schema: "code string, name string"}
  unknown: {parquet: ./lake}
"""


def said(step: str, sink: str = "topic: t") -> list[str]:
    """What is said of columns; the step is called s."""
    text = f"{SOURCES}steps:\n  s: {step}\nsinks:\n  out: {{from: s, mode: update, {sink}}}\n"
    loaded = checked(read_yaml(text.encode(), "/f.yaml", {}))
    found = [each for each in loaded.problems if not each.is_warning]
    assert all("there is no column" in each.message for each in found), found
    return [f"{each.path}: {each.message}" for each in found]


def rule(text: str) -> str:
    return f'{{from: orders, rules: [{{expect: "{text}", otherwise: drop}}]}}'


def query(text: str) -> str:
    return f'{{sql: "{text}"}}'


@pytest.mark.parametrize(
    ("step", "sink", "expected"),
    [
        (
            rule("amonut > 0"),
            "topic: t",
            ["steps.s.rules[0].expect", "'amonut' in orders", "amount"],
        ),
        (rule("orders.amonut > 0"), "topic: t", ["steps.s.rules[0].expect", "'amonut'"]),
        (rule("size(itms) > 0 AND itms.sku IS NOT NULL"), "topic: t", ["'itms' in orders"]),
        (
            "{from: orders, window: {on: at, size: 1 minute, select: {n: sum(amout)}}}",
            "topic: t",
            ["steps.s.window.select.n", "'amout' in orders"],
        ),
        (
            "{from: orders, window: {on: att, size: 1 minute, select: {n: count(*)}}}",
            "topic: t",
            ["steps.s.window.on", "'att'"],
        ),
        (
            "{from: orders, window: {on: time, size: 1 minute, select: {n: count(*)}}}",
            "topic: t",
            ["steps.s.window.on", "'time' in orders"],
        ),
        (
            "{from: orders, window: {on: at, size: 1 minute, by: [custmer], select: {n: sum(id)}}}",
            "topic: t",
            ["steps.s.window.by", "'custmer'"],
        ),
        (
            "{join: {left: orders, right: payments, on: id, select: {paid: right.payd}}}",
            "topic: t",
            ["steps.s.join.select.paid", "'payd' in payments"],
        ),
        (
            "{join: {left: orders, right: countries, on: customer}}",
            "topic: t",
            ["steps.s.join.on", "'customer' in countries", "code, name"],
        ),
        (query("SELECT id, amout FROM orders"), "topic: t", ["steps.s.sql", "'amout' in orders"]),
        (
            query("SELECT o.id, c.nam FROM orders o JOIN countries c ON o.customer = c.code"),
            "topic: t",
            ["'nam' in countries"],
        ),
        (
            query("SELECT o.id FROM orders o JOIN countries AS c ON o.customr = c.code"),
            "topic: t",
            ["'customr' in orders"],
        ),
        (query("SELECT id FROM orders WHERE amout > 1"), "topic: t", ["'amout'"]),
        (
            query("SELECT id, amount * 2 AS twice FROM orders"),
            "topic: t, key: amount",
            ["sinks.out.key"],
        ),
        (query("SELECT valu FROM raw"), "topic: t", ["'valu' in raw", "value"]),
        (
            query("SELECT * FROM orders"),
            "topic: t, value: to_json(struct(idd))",
            ["sinks.out.value"],
        ),
        (query("SELECT id, customer FROM orders"), "topic: t, key: s.amount", ["'amount' in s"]),
    ],
)
def test_a_column_that_no_table_has_is_found_where_it_is_named(
    step: str, sink: str, expected: list[str]
) -> None:
    found = said(step, sink)
    assert found
    assert all(each in found[0] for each in expected), found


@pytest.mark.parametrize(
    "step",
    [
        rule("amount > 0 AND customer IS NOT NULL OR ID BETWEEN 1 AND 10"),
        rule("orders.amount > 0 AND items[0].sku LIKE 'a%' ESCAPE '!'"),
        rule("exists(items, item -> item.sku = 'x')"),
        rule("CASE WHEN amount > 0 THEN true ELSE false END"),
        rule("CAST(amount AS decimal(10, 2)) > 0 AND try_cast(customer AS bigint) IS NULL"),
        rule("at > current_timestamp() - INTERVAL 1 day AND at > DATE '2020-01-01'"),
        rule("at > current_date - INTERVAL '2' HOURS AND extract(year FROM at) > 2000"),
        rule("amount::int > 0 AND `customer` NOT IN ('a', 'b')"),
        rule("_parsed AND at AT TIME ZONE 'UTC' IS NOT NULL"),
        query(
            "SELECT o.*, c.name AS country FROM orders o LEFT JOIN countries c ON customer = code"
        ),
        query("SELECT count(*) FILTER (WHERE amount > 1) AS n, max(at) latest FROM orders"),
        query("SELECT id, amount * 2 AS twice, twice + 1 AS more FROM orders ORDER BY more"),
        query("SELECT sum(amount) OVER (PARTITION BY id ORDER BY at) total FROM countries, orders"),
        query("SELECT how.card, p.how.bank FROM payments p"),
        query("SELECT anything, unknown.thing FROM unknown"),
        query("SELECT anything FROM orders JOIN unknown USING (id)"),
        query("WITH big AS (SELECT id AS number FROM orders) SELECT number FROM big"),
        query("SELECT x.number FROM (SELECT id AS number FROM orders) x"),
        query("SELECT id, item.sku FROM orders LATERAL VIEW explode(items) AS item"),
        query("SELECT key, CAST(value AS string) text, offset FROM raw WHERE partition = 0"),
        query("SELECT current_date today, date(at) AS day, year(at) AS year FROM orders"),
        query("SELECT id FROM orders UNION ALL SELECT code FROM countries"),
        "{from: unknown, window: {on: at, size: 1 minute, select: {n: sum(whatever)}}}",
        "{join: {left: orders, right: countries, on: left.customer = right.code AND amount > 0}}",
        "{join: {left: orders, right: unknown, on: id, select: {x: right.y}}}",
    ],
)
def test_what_may_be_there_is_not_complained_of(step: str) -> None:
    assert said(step) == []


def test_the_columns_of_a_step_are_those_of_the_next() -> None:
    text = f"""{SOURCES}steps:
  w: {{from: orders, window: {{on: at, size: 1 minute, by: customer, select: {{n: count(*)}}}}}}
  j: {{join: {{left: w, right: countries, on: left.customer = right.code}}}}
  q: {{sql: "SELECT window_start AS minute, n, name FROM j"}}
sinks:
  good: {{from: q, topic: t, mode: update, key: minute, value: "concat(n, name)"}}
  bad: {{from: q, topic: u, mode: update, key: window_start}}
"""
    loaded = checked(read_yaml(text.encode(), "/f.yaml", {}))
    (found,) = (each for each in loaded.problems if "no column" in each.message)
    assert found.path == "sinks.bad.key"
    assert found.message == "there is no column 'window_start' in q; it has minute, n, name"


def test_a_keyword_alone_is_a_column_and_a_constant_is_none() -> None:
    assert [each.name for each in columns_in("date")] == ["date"]
    assert columns_in("current_timestamp") == columns_in("null") == columns_in("'at'") == ()
    assert columns_in("date > 3") == ()  # it may be a literal's type


def test_a_text_that_is_not_closed_is_not_judged() -> None:
    assert columns_in("amount > 'x") == ()
