"""Data checks of a local workspace on DuckDB; the only package that imports duckdb, which the extra `tables` installs."""
