"""Settings that all tasks of the backfill share."""

from perago import RetryPolicy, TaskControls, TimeoutPolicy

QUICK_RETRY = TaskControls(retry=RetryPolicy(count=10, delay_seconds=1), timeout=TimeoutPolicy(response_seconds=10))
"""If a worker dies, the lease expires after 10 s and another attempt starts one second later."""
