"""Run files of SQL in DuckDB over a recording, or over NAME=PATH for each variable that they have;
print the tables of each, as JSON."""

import json
import sys

import duckdb

database = duckdb.connect()
for variable in sys.argv[1].split(","):
    name, _, path = variable.rpartition("=")
    database.execute(f"SET VARIABLE {name or 'files'} = ?", [path])
tables = []
for path in sys.argv[2:]:
    with open(path) as file:
        for statement in database.extract_statements(file.read()):
            result = database.execute(statement)
            names = [column[0] for column in result.description]
            tables.append([dict(zip(names, row)) for row in result.fetchall()])
print(json.dumps(tables, default=float))
