"""Human steps from the person's side: what waits, the files as a folder, and the answer that ends the step."""
