"""Downloads or builds what a Python package cannot contain, once per machine: Java, Maven artifacts and programs."""
