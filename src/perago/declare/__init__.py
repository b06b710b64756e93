"""What a task author says: values, checks and contracts, without I/O. In: a task module's code. Out: a `TaskDeclaration`."""
