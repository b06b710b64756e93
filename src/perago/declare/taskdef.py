"""Build the Conductor TaskDef of a declaration, and compare it with the one that Conductor has stored.

Prefix, checks, read_only, budget, endpoints and credentials concern only the worker and are never in a TaskDef.
"""

from collections.abc import Mapping
from typing import Any, cast

from perago.declare.controls import ExecutionLimits
from perago.declare.task import TaskDeclaration

Json = dict[str, Any]

_LEFT_OUT: Mapping[str, object] = {
    "description": None,
    "concurrentExecLimit": None,
    "rateLimitFrequencyInSeconds": 1,
    "rateLimitPerFrequency": 0,
}
"""Conductor's values for the fields that a TaskDef may leave out."""


def of(declaration: TaskDeclaration) -> Json:
    contract, retry, timeout = declaration.contract, declaration.controls.retry, declaration.controls.timeout
    return {
        "name": declaration.name,
        **({} if declaration.description is None else {"description": declaration.description}),
        "ownerEmail": declaration.owner_email,
        "retryCount": retry.count,
        "retryLogic": str(retry.logic),
        "retryDelaySeconds": retry.delay_seconds,
        "maxRetryDelaySeconds": retry.max_delay_seconds,
        "backoffJitterMs": retry.jitter_ms,
        "responseTimeoutSeconds": timeout.response_seconds,
        "timeoutSeconds": timeout.seconds,
        "totalTimeoutSeconds": timeout.total_seconds,
        "pollTimeoutSeconds": timeout.poll_seconds,
        "timeoutPolicy": str(timeout.policy),
        **_limits(declaration.controls.limits),
        "inputKeys": contract.input_keys,
        "outputKeys": contract.output_keys,
        "inputSchema": _schema(f"{declaration.name}.input", contract.input_schema),
        "outputSchema": _schema(f"{declaration.name}.output", contract.output_schema),
    }


def differences(ours: Mapping[str, Any], stored: Mapping[str, Any]) -> dict[str, tuple[object, object]]:
    """By field: the stored and the wanted value. Fields that Conductor adds itself are ignored."""
    wanted = {**_LEFT_OUT, **ours}
    found = {name: _as_sent(ours.get(name), stored.get(name, _LEFT_OUT.get(name))) for name in wanted}
    return {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]}


def _limits(limits: ExecutionLimits) -> Json:
    given = {
        "concurrentExecLimit": limits.concurrent_exec_limit,
        "rateLimitFrequencyInSeconds": limits.rate_limit_frequency_in_seconds,
        "rateLimitPerFrequency": limits.rate_limit_per_frequency,
    }
    return {name: value for name, value in given.items() if value is not None}


def _schema(name: str, data: Json) -> Json:
    return {"name": name, "version": 1, "type": "JSON", "data": data}


def _as_sent(ours: object, stored: object) -> object:
    """Conductor adds timestamps to a schema; compare only the fields that were sent."""
    if isinstance(ours, dict) and isinstance(stored, dict):
        return {key: value for key, value in cast("Json", stored).items() if key in ours}
    return stored
