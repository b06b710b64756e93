"""An example pipeline: ninety days of flights recomputed side by side and published as one commit."""
