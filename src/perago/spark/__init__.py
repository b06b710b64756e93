"""Tasks whose data Spark reads and writes in lakeFS. The only room that imports pyspark, and only once a Spark task runs."""
