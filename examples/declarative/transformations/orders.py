"""A topic as a streaming table, a table made of it, and a topic as a sink."""

import os

from pyspark import pipelines as dp
from pyspark.sql import (
    DataFrame,
    SparkSession,
    functions as F,  # noqa: N812 - as everyone writes it
)

spark = SparkSession.active()
SERVERS = os.environ.get("GOQUEUE_SERVERS", "127.0.0.1:9092")


@dp.table
def orders() -> DataFrame:
    """Every order, once: a run goes on where the last one ended."""
    return (
        spark.readStream.format("goqueue")
        .option("bootstrap.servers", SERVERS)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("columns", "value,offset")
        .option("valueFormat", "json")
        .option("valueSchema", "id bigint, customer string, amount double")
        .load()
        .select("value.*", "offset")
    )


@dp.materialized_view
def revenue() -> DataFrame:
    """What each customer has spent, over all orders so far."""
    return (
        spark.read.table("orders")
        .groupBy("customer")
        .agg(F.count(F.lit(1)).alias("orders"), F.sum("amount").alias("amount"))
    )


dp.create_sink("large_orders", "goqueue", {"bootstrap.servers": SERVERS, "topic": "large-orders"})


@dp.append_flow(target="large_orders")
def large_orders_flow() -> DataFrame:
    """Orders of 100 and more, exactly once, for whoever reads the topic."""
    return (
        spark.readStream.table("orders")
        .where("amount >= 100")
        .select(F.col("customer").alias("key"), F.to_json(F.struct("*")).alias("value"))
    )
