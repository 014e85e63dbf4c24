"""Run the code of docs/python.md and docs/python.ipynb in a folder that has recording.parquet, and
write copies of it by programs at their defaults. Print the tables as JSON."""

import json
import os
import pathlib
import sys

os.environ["MPLBACKEND"] = "Agg"
docs = pathlib.Path(sys.argv[1])
os.chdir(sys.argv[2])
# Output of the code is not ours.
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def blocks():
    parts = (docs / "python.md").read_text().split("```python\n")[1:]
    return [part.split("```")[0] for part in parts]


def cells():
    notebook = json.loads((docs / "python.ipynb").read_text())
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def rows(table):
    """Return rows of any of the three kinds of tables by the name of their stage."""
    if hasattr(table, "to_dicts"):
        records = table.to_dicts()
    else:
        table = table if "stage" in table.columns else table.rename_axis("stage").reset_index()
        records = table.to_dict("records")
    return {row.pop("stage"): {key: int(value) for key, value in row.items()} for row in records}


def table_of(code):
    names = {}
    exec(compile(code, "docs", "exec"), names)
    return rows(names["table"]) if "table" in names else None


tables = [table for table in map(table_of, blocks()) if table]
tables.append(table_of("\n".join(cells())))
assert os.path.getsize("waterfall.png") > 10_000

import duckdb
import pandas
import polars
import pyarrow.parquet as parquet

SOURCE = "recording.parquet"
duckdb.sql(f"COPY (FROM '{SOURCE}') TO 'duckdb.parquet'")
polars.read_parquet(SOURCE).write_parquet("polars.parquet")
pandas.read_parquet(SOURCE, dtype_backend="pyarrow").to_parquet("pandas.parquet")
pandas.read_parquet(SOURCE).to_parquet("points.parquet")
table = parquet.read_table(SOURCE)
parquet.write_table(table, "pyarrow.parquet")
for codec in ["lz4", "zstd", "none", "gzip"]:
    parquet.write_table(table, f"{codec}.parquet", compression=codec)
# Of more rows than are decoded at once, in one row group of pyarrow.
many = duckdb.sql(f"FROM '{SOURCE}', range(40) SELECT * EXCLUDE (range)").to_arrow_table()
parquet.write_table(many, "many.parquet")
assert parquet.read_metadata("many.parquet").num_row_groups == 1
duckdb.sql(f"COPY (SELECT * REPLACE (NULL::BIGINT AS weight) FROM '{SOURCE}') TO 'null.parquet'")
json.dump(tables, answer)
