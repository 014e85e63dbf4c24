"""Run jobs of SQL in Apache Spark, with several workers: each has views of files by their names, and
files of SQL. Print the tables of each job as JSON, after the number of executors."""

import json
import sys

from pyspark.sql import SparkSession

OPTIONS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
}


def create_view(spark, name, path):
    reader = spark.read.option("mergeSchema", True)
    if path.endswith(".csv"):
        reader = reader.option("header", True).option("inferSchema", True).format("csv")
    reader.load(path).createOrReplaceTempView(name)


def tables(spark, job):
    for name, path in job["views"].items():
        create_view(spark, name, path)
    for path in job["files"]:
        with open(path) as file:
            text = "".join(line for line in file if not line.startswith("--"))
        for statement in filter(str.strip, text.split(";")):
            result = spark.sql(statement)
            if result.columns:
                yield [row.asDict() for row in result.collect()]


builder = SparkSession.builder.master(sys.argv[1])
for option in OPTIONS.items():
    builder = builder.config(*option)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
answers = [list(tables(spark, job)) for job in json.loads(sys.argv[2])]
# The driver is one of them.
executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
spark.stop()
print(json.dumps({"executors": executors, "answers": answers}, default=float))
