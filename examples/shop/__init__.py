"""An example pipeline: a web shop's orders from raw lines to a report, six tasks in one workflow."""
