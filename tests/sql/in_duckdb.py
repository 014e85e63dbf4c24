"""Run jobs of SQL in DuckDB: each has views of files by their names, and files of SQL. Print the
tables of each job as JSON."""

import datetime
import json
import sys

import duckdb


def plain(value):
    """Return what JSON has no type for: a time as text, a decimal as a number."""
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    return float(value)


def tables(job):
    database = duckdb.connect()
    for name, path in job["views"].items():
        source = f"'{path}'"
        if not path.endswith(".csv"):
            source = f"read_parquet({source}, union_by_name => true)"
        database.execute(f"CREATE VIEW {name} AS FROM {source}")
    for path in job["files"]:
        with open(path) as file:
            for statement in database.extract_statements(file.read()):
                result = database.execute(statement)
                if statement.type == duckdb.StatementType.SELECT:
                    names = [column[0] for column in result.description]
                    yield [dict(zip(names, row)) for row in result.fetchall()]


print(json.dumps([list(tables(job)) for job in json.loads(sys.argv[1])], default=plain))
