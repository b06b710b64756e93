"""Small tasks of which tests build random pipelines. Each module declares one; none of them is retried."""
