"""Random pipelines end the same way without servers and on the real Conductor and lakeFS through a real worker."""

import uuid

from hypothesis import HealthCheck, given, settings
from tests.support import random_pipelines
from tests.support.random_pipelines import FILES, Plan, declare

from perago.testing import run_pipeline


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(random_pipelines.plans)
def test_a_random_pipeline_runs_without_servers(plan: Plan) -> None:
    run = run_pipeline(declare(plan, f"r{uuid.uuid4().hex[:8]}"), files=FILES, inputs=plan.inputs)
    assert run.ok or run.failed_step in run.steps
