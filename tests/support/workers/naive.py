"""A worker that publishes by hand, as one is written without the protocol: download, work, merge, report.

A script for `perago certify`. Standard library only, like a worker in any other language.
"""

import base64
import json
import os
import urllib.parse
import urllib.request
import uuid
from typing import Any

CONDUCTOR = os.environ["CONDUCTOR_SERVER_URL"]
LAKEFS = os.environ["LAKECTL_SERVER_ENDPOINT_URL"] + "/api/v1/repositories"
TASK_TYPE = os.environ["CERTIFY_TASK_TYPE"]
KEYS = f"{os.environ['LAKECTL_CREDENTIALS_ACCESS_KEY_ID']}:{os.environ['LAKECTL_CREDENTIALS_SECRET_ACCESS_KEY']}"
AUTHORIZATION = f"Basic {base64.b64encode(KEYS.encode()).decode()}"


def call(method: str, url: str, body: object = None, *, raw: bytes | None = None) -> Any:
    data = raw if raw is not None else None if body is None else json.dumps(body).encode()
    kind = "application/octet-stream" if raw is not None else "application/json"
    request = urllib.request.Request(url, data, {"Content-Type": kind, "Authorization": AUTHORIZATION}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read().decode()
    return json.loads(text) if text[:1] in ("{", "[") else text


def work(given: dict[str, Any]) -> str:
    """The commit that the target branch shows afterwards."""
    workspace, params = given["workspace"], given["params"]
    if not params["text"]:
        return workspace["ref"]
    repository, branch = f"{LAKEFS}/{workspace['repository']}", f"work-{uuid.uuid4().hex}"
    call("POST", f"{repository}/branches", {"name": branch, "source": workspace["ref"]})
    path = urllib.parse.quote(f"{params['folder']}/{uuid.uuid4().hex}", safe="")
    call("POST", f"{repository}/branches/{branch}/objects?path={path}", raw=params["text"].encode())
    call("POST", f"{repository}/branches/{branch}/commits", {"message": "work"})
    merged = call("POST", f"{repository}/refs/{branch}/merge/{workspace['branch']}", {})
    call("DELETE", f"{repository}/branches/{branch}")
    return merged["reference"]


def serve(task: dict[str, Any]) -> None:
    report = {"workflowInstanceId": task["workflowInstanceId"], "taskId": task["taskId"], "workerId": task["workerId"]}
    try:
        ref = work(task["inputData"])
        output = {"workspace": {**task["inputData"]["workspace"], "ref": ref}, "result": {}}
        report |= {"status": "COMPLETED", "outputData": output}
    except (OSError, ValueError, KeyError) as error:
        report |= {"status": "FAILED", "reasonForIncompletion": str(error)}
    call("POST", f"{CONDUCTOR}/tasks", report)


def main() -> None:
    while True:
        try:
            query = urllib.parse.urlencode({"count": 1, "timeout": 500, "workerid": f"naive-{os.getpid()}"})
            for task in call("GET", f"{CONDUCTOR}/tasks/poll/batch/{TASK_TYPE}?{query}") or ():
                serve(task)
        except OSError as error:
            print(f"a request failed: {error}", flush=True)  # noqa: T201  its log


main()
