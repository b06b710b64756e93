"""The evaluation of data checks: rules become one SQL aggregation per table, figures become violations. Engines are a port."""
