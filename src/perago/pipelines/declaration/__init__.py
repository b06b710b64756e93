"""What `@pipeline` and `Flow` do while the pipeline function runs: record its steps, and check them."""
