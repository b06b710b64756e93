"""Everything that can keep workflows from publishing to a repository or a branch: both servers come in, findings leave."""

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase

from perago import events, human_units
from perago.attempt import instrumentation, kept_gc, staging_gc
from perago.attempt.target_branch import TargetBranch
from perago.builtin import lane_gc
from perago.conductor import task_json as conductor_wire
from perago.conductor.direct_fence import DirectFence
from perago.errors import ConductorError, ConductorNotFound, LakeError, PeragoError
from perago.lake.port import PAGE
from perago.model import BranchName, CommitId, Repository, WorkspaceRef
from perago.operate import clock_skew, evidence, permissions, protection, recovery
from perago.operate.evidence import History, Json
from perago.operate.findings import Finding, Level
from perago.operate.servers import Servers
from perago.protocol import commit_labels, decision, head, staging_names
from perago.protocol.statuses import ACTIVE_WORKFLOW, UNFINISHED_TASK

BRANCHES = 100
"""Of a repository named without a branch, so many visible branches are looked at."""
RECENT = 20
"""A branch is Perago's if one of so many newest commits has its labels."""
SKEW_SECONDS = 30.0


def examine(
    servers: Servers, repository: Repository, branch: BranchName | None, unlabelled: decision.UnlabelledHead
) -> Iterator[Finding]:
    """A server that cannot be reached ends it early: nothing else can be found out then."""
    reached = list(_servers(servers))
    yield from reached
    if any(finding.level is Level.ACTION for finding in reached):
        return
    yield from _clocks(servers)
    facts = servers.settings.repository(repository)
    base = servers.lake.branch(repository, branch or facts.default_branch)
    if facts.is_read_only:
        yield Finding(
            Level.ACTION, "repository", repository, "is read-only, so nothing can be published", "use a writable repository"
        )
    yield from permissions.examine(servers.lake, repository, base)
    chosen = [branch] if branch is not None else list(_own_branches(servers, repository))
    patterns = servers.settings.protected_patterns(repository)
    for one in chosen:
        yield from _branch(servers, repository, one, patterns, unlabelled)
    yield from _staging(servers, repository, branch)
    yield from _lanes(servers, repository)
    yield from _kept(servers, repository)
    if branch is None:
        yield from _scope(servers, repository, chosen)


# servers


def _servers(servers: Servers) -> Iterator[Finding]:
    yield _reached("lakeFS", "LAKECTL_SERVER_ENDPOINT_URL and the credentials", lambda: _lakefs(servers))
    yield _reached("Conductor", "CONDUCTOR_SERVER_URL and the credentials", lambda: _conductor(servers))


def _reached(server: str, settings: str, described: Callable[[], str]) -> Finding:
    try:
        return Finding(Level.OK, "server", server, described())
    except (LakeError, ConductorError) as error:
        return Finding(Level.ACTION, "server", server, str(error), f"check {settings}")


def _lakefs(servers: Servers) -> str:
    found = servers.settings.configuration()
    storage: Json = found.get("storage_config") or {}
    version: Json = found.get("version_config") or {}
    presign = "with" if storage.get("pre_sign_support") else "without"
    return (
        f"version {version.get('version') or 'unknown'}, {storage.get('blockstore_type')} block store, {presign} presigned links"
    )


def _conductor(servers: Servers) -> str:
    servers.conductor.check()
    index = "with" if servers.workflows.has_search_index() else "without (tasks of lost polls are found by their timeout only)"
    return f"version {servers.workflows.version() or 'unknown'}, {index} search index"


def _clocks(servers: Servers) -> Iterator[Finding]:
    for server, url in (("lakeFS", servers.settings.url), ("Conductor", servers.workflows.url)):
        yield clock_finding(server, clock_skew.skew(url))


def clock_finding(server: str, skew: float | None) -> Finding:
    if skew is None:
        return Finding(Level.NOTE, "clock", server, "does not send its time")
    if abs(skew) <= SKEW_SECONDS:
        apart = f"{abs(skew):.0f} s apart from" if abs(skew) >= 1 else "agrees with"
        return Finding(Level.OK, "clock", server, f"its clock {apart} this machine's")
    direction = "ahead of" if skew > 0 else "behind"
    text = f"its clock is {abs(skew):.0f} s {direction} this machine's: ages of staging branches and times in logs are wrong"
    return Finding(Level.ACTION, "clock", server, text, "synchronise the clocks (NTP) of this machine and of the server")


# which branches


def _own_branches(servers: Servers, repository: Repository) -> Iterator[BranchName]:
    for branch in servers.settings.visible_branches(repository, BRANCHES)[0]:
        commits = servers.settings.history(repository, branch, RECENT)
        if any(commit_labels.read(commit.metadata) is not None for commit in commits):
            yield branch


def _scope(servers: Servers, repository: Repository, chosen: Sequence[BranchName]) -> Iterator[Finding]:
    _, has_more = servers.settings.visible_branches(repository, BRANCHES)
    bound = f" among the first {BRANCHES} branches" if has_more else ""
    listed = ", ".join(chosen) or "none"
    text = f"branches with a Perago commit among their newest {RECENT}{bound}: {listed}"
    yield Finding(Level.NOTE if has_more or not chosen else Level.OK, "scope", repository, text)


# one branch


def _branch(
    servers: Servers,
    repository: Repository,
    branch: BranchName,
    patterns: Sequence[str],
    unlabelled: decision.UnlabelledHead,
) -> Iterator[Finding]:
    where = f"{repository}/{branch}"
    yield from _protection(where, branch, patterns)
    yield from _hooks(servers, repository, branch)
    yield from _uncommitted(servers, repository, branch)
    history = evidence.examine(servers, repository, branch)
    yield from _head(history)
    yield from _missing(history)
    yield from _blocked(servers, history, unlabelled)


def _protection(where: str, branch: BranchName, patterns: Sequence[str]) -> Iterator[Finding]:
    for pattern in patterns:
        if fnmatchcase(branch, pattern):
            yield Finding(
                Level.ACTION,
                "branch-protection",
                where,
                f"the branch protection rule {pattern!r} refuses relocations: abandoned publications cannot be replaced",
                f"lakectl branch-protect delete lakefs://{where.partition('/')[0]} '{pattern}'",
            )


def _hooks(servers: Servers, repository: Repository, branch: BranchName) -> Iterator[Finding]:
    where = f"{repository}/{branch}"
    at = servers.lake.branch(repository, branch)
    match protection.state(servers.lake, repository, at, branch):
        case protection.State.INSTALLED:
            text = "the hooks of perago protect are installed; they do not cover relocations and sources without the action file"
            yield Finding(Level.OK, "hooks", where, text)
        case protection.State.OUTDATED:
            text = f"{protection.path_of(branch)} is not what this version of perago protect writes"
            yield Finding(Level.ACTION, "hooks", where, text, f"perago protect {repository} {branch}")
        case protection.State.ABSENT:
            yield Finding(Level.OK, "hooks", where, "perago protect is not installed (optional)")
    others = protection.other_actions(servers.lake, repository, at)
    if others:
        text = f"other lakeFS actions, whose refusals make publications fail: {', '.join(others)}"
        yield Finding(Level.NOTE, "hooks", where, text)


def _uncommitted(servers: Servers, repository: Repository, branch: BranchName) -> Iterator[Finding]:
    count = sum(1 for _ in itertools.islice(servers.lake.uncommitted(repository, branch), PAGE))
    if count:
        text = f"{count}{' or more' if count == PAGE else ''} uncommitted changes: nothing can be published"
        fix = f"lakectl branch reset lakefs://{repository}/{branch} --yes   (or commit them: lakectl commit)"
        yield Finding(Level.ACTION, "uncommitted", f"{repository}/{branch}", text, fix)


def _head(history: History) -> Iterator[Finding]:
    where = f"{history.repository}/{history.branch}"
    recover = f"perago recover {where}"
    going = list(itertools.takewhile(lambda one: one.may_go, history.judged))
    newest = history.judged[0]
    accepted = history.newest_accepted
    known = f"; the newest accepted commit is {accepted.commit.id}" if accepted is not None and accepted is not newest else ""
    text = f"{newest.commit.id} is {recovery.describe(newest)}"
    if len(going) > 1:
        texts = ", ".join(f"{one.commit.id} ({recovery.describe(one)})" for one in going)
        message = f"{len(going)} commits that Conductor did not accept stand on each other, and no retry can pass: {texts}{known}"
        yield Finding(Level.ACTION, "stuck-history", where, message, recover)
    elif going and newest.workflow_status in ACTIVE_WORKFLOW:
        yield Finding(Level.NOTE, "head", where, f"the head {text}; a retry of its workflow replaces it{known}")
    elif going:
        yield Finding(Level.ACTION, "unaccepted-head", where, f"the head {text}{known}", recover)
    elif any(one.may_go for one in history.judged):
        plan = recovery.plan(history)
        why = plan.why if isinstance(plan, recovery.Unsafe) else text
        yield Finding(Level.ACTION, "stuck-history", where, f"no retry can pass: {why}{known}", f"{recover} --to COMMIT")
    else:
        level = Level.OK if isinstance(newest.acceptance, head.AcceptedCommit) else Level.NOTE
        yield Finding(level, "head", where, f"the head {text}{known}")


def _missing(history: History) -> Iterator[Finding]:
    plan = recovery.plan(history)
    where = f"{history.repository}/{history.branch}"
    for one in history.missing:
        is_goal = isinstance(plan, recovery.RecoveryMove) and plan.goal.id == one.commit.id
        text = (
            f"Conductor accepted {one.commit.id} from step {one.reference_name} of workflow {one.workflow_id}, "
            "and the branch does not hold it"
        )
        fix = f"perago recover {where}" + ("" if is_goal else f" --to {one.commit.id}")
        yield Finding(Level.ACTION, "displaced", where, text, fix)


def _blocked(servers: Servers, history: History, unlabelled: decision.UnlabelledHead) -> Iterator[Finding]:
    """Unfinished tasks of running workflows that write here and can only be refused. A read-only task is not refused."""
    for workflow_id in history.workflows:
        run = servers.workflows.get(workflow_id)
        if run is None or run.get("status") not in ACTIVE_WORKFLOW:
            continue
        for task in evidence.tasks_of(servers, workflow_id):
            given = evidence.input_of(task)
            is_here = (given.get("repository"), given.get("branch")) == (history.repository, history.branch)
            if is_here and task.get("status") in UNFINISHED_TASK:
                yield from _refusal(servers, history, task, run, unlabelled)


def _refusal(servers: Servers, history: History, task: Json, run: Json, unlabelled: decision.UnlabelledHead) -> Iterator[Finding]:
    ref = WorkspaceRef(history.repository, history.branch, CommitId(str(evidence.input_of(task).get("ref"))))
    attempt = conductor_wire.attempt(task)
    recorder = instrumentation.EffectRecorder(events.ignore, time.monotonic)
    target = TargetBranch(servers.lake, DirectFence(servers.conductor, lease=0), recorder, attempt, ref)
    try:
        found = target.look(conductor_wire.snapshot(task, run))
    except PeragoError as error:
        reason, is_final = str(error), True
    else:
        refusal = decision.refusal(attempt, ref.ref, found, unlabelled)
        reason = refusal.reason if refusal is not None else None
        is_final = not isinstance(found.acceptance, head.InProgress)
    if reason is None or not is_final:
        return
    step = f"step {attempt.reference_name} of workflow {attempt.workflow_id}"
    text = f"{step} is {task.get('status')} and, unless it is read-only, will be refused: {reason}"
    fix = f"perago recover {history.repository}/{history.branch}, or end the workflow and start a new one from {history.head.id}"
    yield Finding(Level.ACTION, "blocked-step", f"{history.repository}/{history.branch}", text, fix)


# staging branches


def _staging(servers: Servers, repository: Repository, branch: BranchName | None) -> Iterator[Finding]:
    digest = None if branch is None else staging_names.target_digest(branch)
    now = time.time()
    for listed in servers.lake.branches(repository, staging_names.PREFIX):
        name = staging_names.parse(listed.name)
        if name is None:
            yield Finding(Level.NOTE, "staging", repository, f"{listed.name} is named like a staging branch, but not by Perago")
        elif digest is None or name.target == digest:
            yield _staged(servers, repository, name, now)


def _lanes(servers: Servers, repository: Repository) -> Iterator[Finding]:
    """Branches of lanes and joins that their workflow has left behind. Those of a running one are not mentioned."""
    found = lane_gc.find(servers.lake, servers.conductor, repository, now=time.time(), older_than=float("inf"))
    for one in found:
        if one.orphaned is not None:
            age = "age unknown" if one.age_seconds is None else f"{human_units.show_seconds(round(one.age_seconds))} old"
            text = f"{one.branch} of workflow {one.name.workflow_id} is left over ({age}): {one.orphaned}"
            yield Finding(Level.ACTION, "lanes", repository, text, f"perago gc {repository} --delete")


def _kept(servers: Servers, repository: Repository) -> Iterator[Finding]:
    """Attempts that failed their post checks and are kept for a while. No fault: nothing is ever published from them."""
    for one in kept_gc.find(servers.lake, repository, now=time.time()):
        text = f"{one.branch} keeps what step {one.name.reference_name} of workflow {one.name.workflow_id} left"
        if one.orphaned is None:
            until = f"until {human_units.show_moment(one.name.until)}; perago inspect {one.name.task_id} downloads it"
            yield Finding(Level.OK, "kept", repository, f"{text}, {until}")
        else:
            fix = f"perago gc {repository} --delete, or a worker whose tasks use the repository"
            yield Finding(Level.NOTE, "kept", repository, f"{text}; its time is over", fix)


def _staged(servers: Servers, repository: Repository, name: staging_names.StagingName, now: float) -> Finding:
    acceptance = _owner(servers, name)
    found = staging_gc.judge(name, acceptance, now=now, older_than=float("inf"))
    age = "age unknown" if found.age_seconds is None else f"{human_units.show_seconds(round(found.age_seconds))} old"
    owner = f"step {name.reference_name} of workflow {name.workflow_id}"
    if found.orphaned is not None:
        text = f"{name.branch} of {owner} is left over ({age}): {found.orphaned}"
        return Finding(Level.ACTION, "staging", repository, text, f"perago gc {repository} --delete")
    status = acceptance.status if isinstance(acceptance, staging_gc.Snapshot) else "unknown"
    return Finding(Level.OK, "staging", repository, f"{name.branch} of {owner} is in use ({age}): its task is {status}")


def _owner(servers: Servers, name: staging_names.StagingName) -> staging_gc.TaskAnswer:
    if name.workflow_id is None or name.task_id is None:
        return staging_gc.TaskNotAsked()
    try:
        return servers.conductor.snapshot(name.workflow_id, name.task_id)
    except ConductorNotFound:
        return staging_gc.TaskNotFound()
