"""The commands of the command line, one module each; modules with an underscore hold what several of them share."""
