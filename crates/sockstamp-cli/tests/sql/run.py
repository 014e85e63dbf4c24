"""Run files of SQL over a recording in DuckDB; print the tables of each, as JSON."""

import json
import sys

import duckdb

database = duckdb.connect()
database.execute("SET VARIABLE files = ?", [sys.argv[1]])
tables = []
for path in sys.argv[2:]:
    with open(path) as file:
        for statement in database.extract_statements(file.read()):
            result = database.execute(statement)
            names = [column[0] for column in result.description]
            tables.append([dict(zip(names, row)) for row in result.fetchall()])
print(json.dumps(tables, default=float))
