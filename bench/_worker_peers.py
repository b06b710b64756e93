"""The contestants of `worker.py`: no-op workers, each started as a separate process. Arguments: PEER URL TASK_TYPE SLOTS."""

import json
import sys
import threading
import uuid
from typing import Any, cast

import urllib3


def bare(url: str, task_type: str, slots: int) -> None:
    """The minimum over the HTTP API: poll and complete, nothing else."""
    pool = urllib3.PoolManager(maxsize=slots, retries=False)
    headers = {"Content-Type": "application/json"}

    def loop() -> None:
        worker = uuid.uuid4().hex
        poll = f"{url}/tasks/poll/batch/{task_type}?count=1&timeout=1000&workerid={worker}"
        while True:
            for task in json.loads(pool.request("GET", poll, timeout=20).data):
                body = {
                    "workflowInstanceId": task["workflowInstanceId"],
                    "taskId": task["taskId"],
                    "status": "COMPLETED",
                    "outputData": {"result": {"n": task["inputData"]["params"]["n"] + 1}},
                }
                pool.request("POST", f"{url}/tasks", body=json.dumps(body), headers=headers, timeout=20)

    threads = [threading.Thread(target=loop) for _ in range(slots)]
    for thread in threads:
        thread.start()


def sdk(url: str, task_type: str, slots: int) -> None:
    """The official worker, configured as in its manual."""
    from conductor.client.automator.task_handler import TaskHandler  # noqa: PLC0415
    from conductor.client.configuration.configuration import Configuration  # noqa: PLC0415
    from conductor.client.worker.worker import Worker  # noqa: PLC0415

    worker = Worker(task_definition_name=task_type, execute_function=cast("Any", noop), thread_count=slots)
    handler = TaskHandler(workers=[worker], configuration=Configuration(server_api_url=url), scan_for_annotated_workers=False)
    handler.start_processes()
    handler.join_processes()


# The SDK does not support parametrised types.
def noop(params: dict) -> dict:  # pyright: ignore[reportMissingTypeArgument, reportUnknownParameterType]
    return {"result": {"n": params["n"] + 1}}


if __name__ == "__main__":
    {"bare": bare, "sdk": sdk}[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]))
