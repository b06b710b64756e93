"""Task declarations: the `@task` decorator, its values, checks and the contract. Validates them without I/O."""
