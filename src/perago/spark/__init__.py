"""Tasks whose data Spark reads and writes in lakeFS. The only package that imports pyspark, and only when a Spark task runs."""
