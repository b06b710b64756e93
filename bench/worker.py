"""Compares the worker with the official one and with a bare HTTP loop, on a real Conductor and lakeFS, in turns.

    .venv/bin/python bench/worker.py [--quick] [--json FILE] [--stack FILE] [--phase throughput|transaction|idle|recovery]

Throughput: the processes of the worker are stopped (SIGSTOP), no-op tasks are queued, the processes continue, and the time until
the last task is completed is measured, by the clock of the server, without the time to start workflows. Meanwhile the benchmark
sends next to nothing, because the server has the same two cores. Latency: one task at a time, from scheduled to completed by the
clock of the server. Transaction: the time that a workspace with one small changed file adds to a task, from poll to report, with
its requests and what the same requests take a bare client. Further figures: CPU time of the worker and requests per task, the
time from the death of an executor to the scheduled retry, and memory (PSS) and CPU of an idle worker. Exit code 1 if a target is
missed.
"""

import argparse
import json
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import _transaction
from _worker_processes import PATIENCE, REQUESTS, Peer, Server, cpu_seconds, given, pss_kb, running, started

from perago.dev.stack import Endpoints, Stack

SETTLING = 8.0
PEERS = ("perago", "sdk", "bare")
PHASES = ("throughput", "transaction", "idle", "recovery")


@dataclass(frozen=True)
class Size:
    rounds: int
    burst: int
    singles: int
    """Tasks one at a time, per round."""
    transactions: int


FULL, QUICK = Size(5, 300, 10, 40), Size(3, 100, 8, 10)
AHEAD = 1.05
"""Target for the throughput, to that of conductor-python."""
ADDED_MS = 15
"""Target for the time that a workspace with one small changed file adds to a task."""
WORKFLOWS_CHECKED_EVERY = 0.1


def burst(server: Server, peer: Peer, count: int) -> None:
    """Records tasks per second, and what each cost."""
    with peer.stopped():
        workflows = [server.start(peer.task_type, given(number)) for number in range(count)]
        pids, requests = peer.pids(), server.requests_of_others()
        cpu = sum(map(cpu_seconds, pids))
        began = time.time()
    for workflow in workflows:
        while server.call("GET", f"/workflow/{workflow}?includeTasks=false")["status"] != "COMPLETED":
            if time.time() > began + PATIENCE:
                raise RuntimeError(f"workflow {workflow} did not complete")
            time.sleep(WORKFLOWS_CHECKED_EVERY)
    peer.cpu_ms.append(1000 * (sum(map(cpu_seconds, pids)) - cpu) / count)
    peer.requests.append((server.requests_of_others() - requests) / count)
    ended = max(server.tasks(workflow)[-1]["endTime"] for workflow in workflows) / 1000
    peer.rates.append(count / (ended - began))


def latency(server: Server, task_type: str, inputs: dict[str, Any]) -> float:
    """Milliseconds from scheduled to completed by the server's clock."""
    task = server.completed(server.start(task_type, inputs))
    return float(task["endTime"] - task["scheduledTime"])


def race(server: Server, stack: Endpoints, folder: Path, slots: int, size: Size) -> dict[str, dict[str, Any]]:
    """Measure all contestants in turn, while all of them run."""
    with ExitStack() as things:
        peers = [things.enter_context(running(lambda name=name: started(server, stack, name, slots, folder))) for name in PEERS]
        for number in range(size.rounds):
            for peer in peers[number % len(peers) :] + peers[: number % len(peers)]:
                others = [other for other in peers if other is not peer]
                with ExitStack() as quiet:
                    # Otherwise the others would keep polling on the same two cores.
                    for other in others:
                        quiet.enter_context(other.stopped())
                    burst(server, peer, size.burst)
                    peer.latencies += [latency(server, peer.task_type, given(n)) for n in range(size.singles)]
    return {
        peer.name: {
            "tasks_per_second": statistics.median(peer.rates),
            "latency_ms": statistics.median(peer.latencies),
            "cpu_ms": statistics.median(peer.cpu_ms),
            "requests": statistics.median(peer.requests),
            "rounds": peer.rates,
        }
        for peer in peers
    }


def recovery(server: Server, stack: Endpoints, folder: Path, count: int) -> float:
    """The longest time in seconds from the death of an executor to the scheduled retry."""
    worst = 0.0
    with running(lambda: started(server, stack, "perago", 1, folder)) as peer:
        for number in range(count):
            executors = [pid for pid in peer.pids() if b"perago.executor.main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            executor = executors[-1]  # after its guardian, whose command line names it too
            # The task that a stopped executor has taken stays in progress until the executor is killed.
            os.kill(executor, signal.SIGSTOP)
            workflow = server.start(peer.task_type, given(number))
            while server.tasks(workflow)[0]["status"] != "IN_PROGRESS":
                time.sleep(0.01)
            began = time.monotonic()
            os.kill(executor, signal.SIGKILL)
            while len(server.tasks(workflow)) < 2:
                time.sleep(0.005)
            worst = max(worst, time.monotonic() - began)
            server.completed(workflow)
    return worst


def idle(peer: Peer, seconds: float) -> dict[str, float]:
    # The last executors may still be importing.
    time.sleep(SETTLING)
    pids = peer.pids()
    before = sum(map(cpu_seconds, pids))
    time.sleep(seconds)
    return {
        "pss_mb": sum(map(pss_kb, pids)) / 1024,
        "cpu_percent": 100 * (sum(map(cpu_seconds, pids)) - before) / seconds,
    }


def measure(stack: Endpoints, size: Size, phases: Sequence[str]) -> dict[str, Any]:
    server = Server(stack.conductor_url)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="perago-bench-") as name:
        folder = Path(name)
        if "throughput" in phases:
            found |= {f"j{slots}": race(server, stack, folder, slots, size) for slots in (1, 4)}
        if "transaction" in phases or "idle" in phases:
            with running(lambda: started(server, stack, "perago-two", 4, folder)) as peer:
                if "idle" in phases:
                    found["idle"] = idle(peer, 2.0 if size is QUICK else 20.0)
                if "transaction" in phases:
                    burst(server, peer, size.burst)  # a server that has just started is slower
                    found["transaction"] = _transaction.measure(server, stack, peer, folder / REQUESTS, size.transactions)
        if "recovery" in phases:
            found["recovery_seconds"] = recovery(server, stack, folder, 1 if size is QUICK else 5)
    return found


def targets(found: dict[str, Any]) -> list[tuple[str, bool]]:
    rows: list[tuple[str, bool]] = []
    for slots in (1, 4):
        if f"j{slots}" in found:
            rows += throughput_targets(slots, {name: found[f"j{slots}"][name]["tasks_per_second"] for name in PEERS})
    if "transaction" in found:
        added = found["transaction"]["workspace_ms"] - found["transaction"]["workspace_free_ms"]
        rows.append((f"a workspace adds {added:.0f} ms <= {ADDED_MS} ms", added <= ADDED_MS))
    if "idle" in found:
        memory = found["idle"]["pss_mb"]
        rows.append((f"idle memory {memory:.0f} MB <= 250 MB", memory <= 250))
    if "recovery_seconds" in found:
        after = found["recovery_seconds"]
        rows.append((f"recovery {after:.2f} s <= 2 s", after <= 2))
    return rows


def throughput_targets(slots: int, rates: dict[str, float]) -> list[tuple[str, bool]]:
    return [
        (
            f"j={slots}: {rates['perago'] / rates['sdk']:.2f} x conductor-python's {rates['sdk']:.1f} tasks/s >= {AHEAD}",
            rates["perago"] >= AHEAD * rates["sdk"],
        ),
        (
            f"j={slots}: {rates['perago']:.1f} tasks/s >= 0.8 of the bare loop's {rates['bare']:.1f}",
            rates["perago"] >= 0.8 * rates["bare"],
        ),
    ]


def show(found: dict[str, Any]) -> None:
    for slots in (1, 4):
        for name, figures in found.get(f"j{slots}", {}).items():
            rounds = " ".join(f"{rate:.0f}" for rate in figures["rounds"])
            print(
                f"j={slots}  {name:8} {figures['tasks_per_second']:8.1f} tasks/s ({rounds}) {figures['latency_ms']:8.1f} ms, "
                f"per task {figures['cpu_ms']:.1f} ms of CPU and {figures['requests']:.2f} requests"
            )
    if "transaction" in found:
        show_transaction(found["transaction"])
    if "idle" in found:
        print(f"idle, j=4: {found['idle']['pss_mb']:.0f} MB, {found['idle']['cpu_percent']:.1f} % of a core")


def show_transaction(figures: dict[str, Any]) -> None:
    free, bound = figures["workspace_free_ms"], figures["workspace_ms"]
    print(f"task without a workspace {free:.0f} ms from poll to report, with one {bound:.0f} ms; its requests:")
    print("   begins      takes  by a bare client")
    for row in figures["requests"]:
        print(f"{row['began_ms']:6.1f} ms  {row['took_ms']:6.1f} ms  {row['bare_ms']:6.1f} ms  {row['name']}")
    print(f"requests to lakeFS that need the reply to the one before, by a bare client: {figures['bare_in_turn_ms']:.1f} ms")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, in which chance has more influence")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--stack", type=Path, help="use the servers of this file, written by `perago dev --json`")
    parser.add_argument("--phase", action="append", choices=PHASES, help="measure only this; may be repeated")
    options = parser.parse_args()
    size, phases = QUICK if options.quick else FULL, options.phase or PHASES
    if options.stack is not None:
        found = measure(Endpoints.from_json(options.stack.read_text()), size, phases)
    else:
        with Stack() as stack:
            found = measure(stack.endpoints, size, phases)
    show(found)
    rows = targets(found)
    for text, met in rows:
        print(f"{'ok    ' if met else 'MISSED'} {text}")
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=2))
    return 0 if all(met for _, met in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
