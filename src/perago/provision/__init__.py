"""Getting what a package cannot carry: Java, Maven artifacts and programs, once per machine, into one cache."""
