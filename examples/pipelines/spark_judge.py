"""Rows of a Spark table, judged where they lie: `mapInArrow` hands each batch to a model that every worker reads.

    spark-submit spark_judge.py orders.tellwhy "SELECT * FROM orders" odd_orders

The model file must be where the workers find it. Each batch is judged as a block of all rows: alarms begin at the
line that was drawn in fitting, so that it does not matter how Spark cuts the table.
"""

import sys
from collections.abc import Callable, Iterator
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import SparkSession

import tellwhy
from tellwhy.data.reading.arrow_frames import frame_from_arrow
from tellwhy.data.table import Table
from tellwhy.kinds.table import change_request, explain_judged, judge
from tellwhy.kinds.table_model import TableModel

COLUMNS = pa.schema([("id", pa.string()), ("score", pa.float64()), ("reason", pa.string())])


@lru_cache(maxsize=1)
def load_model(path: str) -> TableModel:
    """Read the model once in each worker."""
    return tellwhy.load(path)


def find_alarms(path: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what `mapInArrow` takes: batches of rows in, batches of their alarms out."""

    def judge_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        model = load_model(path)
        for batch in batches:
            rows = Table(frame_from_arrow(pa.Table.from_batches([batch])), "spark")
            found = explain_judged(model, judge(model, rows, change_request(model, {}), is_part=True))
            alarms = [each for each in found.anomalies if each.is_alarm]
            reasons = [each.reasons[0].text if each.reasons else None for each in alarms]
            told = [[each.id for each in alarms], [each.score for each in alarms], reasons]
            arrays = [pa.array(cells, kind) for cells, kind in zip(told, COLUMNS.types, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)

    return judge_batches


if __name__ == "__main__":
    model, query, target = sys.argv[1:]
    spark = SparkSession.builder.appName("tellwhy").getOrCreate()
    odd = spark.sql(query).mapInArrow(find_alarms(model), "id string, score double, reason string")
    odd.write.saveAsTable(target)
