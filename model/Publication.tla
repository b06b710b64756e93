---------------------------- MODULE Publication ----------------------------
(***************************************************************************)
(* How attempts publish to one target branch: the steps of one workflow,   *)
(* the lanes of a fork, several workflows. These take turns in any order:  *)
(*                                                                         *)
(*   Conductor   hands out executions: first steps, retries, reruns, the   *)
(*               next step of a lane                                       *)
(*   clients     one per execution; may stop forever after any step        *)
(*   lakeFS      one pending request per execution, which it may finish    *)
(*               long after the client has given up or died                *)
(*   people      commit to the target branch by hand                       *)
(*                                                                         *)
(* A lane is a sequence of steps. A workflow without a fork is one lane; a *)
(* fork gives one workflow several. One lane alone is the smallest setting *)
(* and is checked with the most executions.                                *)
(*                                                                         *)
(* A branch update of lakeFS is an optimistic loop: read the target's      *)
(* record and resolve the source (Hold), write if the record still has the *)
(* value that was read (Apply), else begin again. The record is compared   *)
(* by value, so a head that leaves and comes back is not noticed: the      *)
(* model lets that happen more often than lakeFS does.                     *)
(*                                                                         *)
(* What a task writes is not modelled. Executions may write the same       *)
(* bytes, so wherever content would be compared, both results are tried.   *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    Slots,     \* executions that Conductor can hand out in all
    Lanes,     \* lanes that publish to the target branch
    Forked,    \* the lanes belong to one workflow; else each is a workflow of its own
    Steps,     \* steps of a lane; each reads what the one before it left
    Reruns,    \* executions that share task id and retry count with an earlier one
    Hands,     \* commits made by hand
    Unlabelled,\* what an attempt does to a head made by hand: "replace" or "refuse"
    Changes,   \* what a body can do: {TRUE} changes the workspace, {FALSE} does not, or both
    Off,       \* rules that are switched off
    Whole,     \* a crash is a separate step and no state is left out (see Doomed); otherwise a crashed client takes no
               \* further step, which makes no difference to all others
    World      \* unusual behaviour of the environment

Rules == {"verify-abandoned", "announce-first", "list-again", "order", "revoke", "byname", "handle", "verify", "verify-mend",
          "undo-claim", "displaced", "restore", "fenced-handle", "own-commit", "own-merge", "peers", "barrier",
          "restore-barrier", "restore-peers"}
\* Behaviour that the protocol tolerates, and behaviour that it is known not to tolerate.
Conditions == {"optional-step", "stale-step", "calm", "vanish", "early-handle", "waiting-hands"}
Hazards == {"late-report", "two-per-poll"}
ASSUME Off \subseteq Rules /\ World \subseteq (Conditions \cup Hazards)
On(rule) == rule \notin Off

VARIABLES
    head,     \* the commit that the target branch shows
    onto,     \* onto[w]: the commit that w's merge commit was made on
    hand,     \* hand[i]: the commit that commit i made by hand was made on
    branches, \* the staging branches that exist
    request,  \* request[r]: what lakeFS was asked, and how far it is; a restoration is request Slots + w
    task,     \* task[w]: lane, step and retry count, which is all Conductor's task id stands for
    input,    \* input[w]: the commit A that w reads
    current,  \* current[l]: the execution Conductor waits for in lane l; 0 if there is none
    handed,   \* executions handed out so far
    out,      \* out[w]: the commit in w's report, if Conductor accepted it
    pc,       \* where each client is
    empty,    \* empty[w]: the diff of w is empty
    todo,     \* todo[w]: staging branches w has listed and not yet deleted
    seen,     \* seen[w]: the head that w has judged and is going to remove
    claim     \* claim[w]: the commit that w is going to report

conductor == <<task, input, current, handed, out>>
lake == <<head, onto, hand, branches, request>>
client == <<pc, empty, todo, seen, claim>>
vars == <<conductor, lake, client>>

Slot == 1..Slots
Lane == 1..Lanes
None == 0                    \* no execution
Root == 0                    \* the commit that the branch shows at first
Staged(w) == w               \* C, the commit on w's staging branch
Merged(w) == 10 + w          \* the commit that a merge by w makes
ByHand(i) == 20 + i
Nothing == 99
NoRequest == [state |-> "none", op |-> "none", record |-> Nothing]
NoTask == [lane |-> 0, step |-> 0, retry |-> 0]

\* An execution has one staging branch (which is a handle where there is no change), a second one to remove its own commit again,
\* and a third one to restore what Conductor accepted.
First(w) == w
Second(w) == 10 + w
Third(w) == 20 + w
Owner(branch) == branch % 10
\* The request of a restoration is a second one: that of the publication may still be pending.
Restoration(w) == Slots + w
Requests == 1..(IF Reruns > 0 THEN 2 * Slots ELSE Slots)
Client(r) == IF r > Slots THEN r - Slots ELSE r

IsByHand(c) == c > 20 /\ c < Nothing
Author(c) == IF c > 10 THEN c - 10 ELSE c
Parent(c) ==
    CASE c = Root -> Nothing
      [] c = Nothing -> Nothing
      [] IsByHand(c) -> hand[c - 20]
      [] c > 10 /\ ~IsByHand(c) -> onto[c - 10]
      [] OTHER -> input[c]
RECURSIVE History(_)
History(c) == IF c = Nothing THEN {} ELSE {c} \cup History(Parent(c))

Workflow(w) == IF Forked THEN 1 ELSE task[w].lane

Init ==
    /\ head = Root
    /\ onto = [w \in Slot |-> Nothing]
    /\ hand = <<>>
    /\ branches = {}
    /\ request = [r \in Requests |-> NoRequest]
    /\ task = [w \in Slot |-> IF w = 1 THEN [lane |-> 1, step |-> 1, retry |-> 0] ELSE NoTask]
    /\ input = [w \in Slot |-> Root]
    /\ current = [l \in Lane |-> IF l = 1 THEN 1 ELSE None]
    /\ handed = 1
    /\ out = [w \in Slot |-> Nothing]
    /\ pc = [w \in Slot |-> IF w = 1 THEN "body" ELSE "idle"]
    /\ empty = [w \in Slot |-> FALSE]
    /\ todo = [w \in Slot |-> {}]
    /\ seen = [w \in Slot |-> Nothing]
    /\ claim = [w \in Slot |-> Nothing]

(***************************************************************************)
(* What Conductor says when it is asked                                    *)
(***************************************************************************)
LaneOf(w) == task[w].lane
InLane(l) == {w \in Slot : task[w].lane = l}
CurrentOf(w) == current[LaneOf(w)]
IsCurrent(w) == w = CurrentOf(w)
SameTaskId(w) == CurrentOf(w) # None /\ task[w] = task[CurrentOf(w)]

Completed(t) == \E w \in Slot : task[w] = t /\ out[w] # Nothing
Output(t) == out[CHOOSE w \in Slot : task[w] = t /\ out[w] # Nothing]
Unfinished(t) == current[t.lane] # None /\ task[current[t.lane]] = t

Accepts(w) == IsCurrent(w) \/ ("late-report" \in World /\ SameTaskId(w))
PassesFence(w) == IsCurrent(w) \/ ("two-per-poll" \in World /\ SameTaskId(w))

(***************************************************************************)
(* Conductor                                                               *)
(***************************************************************************)
Pending(r) == request[r].state \in {"sent", "held"}
SpentReruns == Cardinality({w \in Slot : LaneOf(w) # 0 /\ \E v \in Slot : v < w /\ task[v] = task[w]})
LastOf(l) == CHOOSE w \in InLane(l) : \A v \in InLane(l) : v <= w
MayHavePeers(w) ==
    \/ \E v \in Slot : v # w /\ task[v] = task[w]
    \/ SpentReruns < Reruns /\ task[w] = task[LastOf(LaneOf(w))]

\* The state of an execution that has ended without being accepted. "failed": Conductor may complete its task with the result
\* of another execution, which it then puts back on the branch.
Ended(w) == IF On("restore") /\ MayHavePeers(w) THEN "failed" ELSE "dead"

\* An execution that Conductor has given up can have no further effect if a fence is still to come, or only a report that will
\* not be accepted. It ends at once, with everything that only it could use; its request continues. This makes no difference
\* to the others and removes most of the states.
Doomed(w) ==
    /\ ~Whole
    /\ World \cap Hazards = {} \/ (SpentReruns = Reruns /\ ~\E v \in Slot : v # w /\ task[v] = task[w])
    /\ \/ pc[w] \in {"body", "stage", "again", "rescue", "report"}
       \/ pc[w] \in {"list", "fence", "handle"} /\ (On("fenced-handle") \/ seen[w] = Nothing)
       \/ pc[w] = "undo" /\ On("fenced-handle") /\ On("undo-claim")
       \/ pc[w] = "wait" /\ request[w].op # "merge"

\* The clients after Conductor has given up or completed an attempt of a lane: those in `gone` end, `starts` begins.
Clients(gone, starts, restores) ==
    /\ pc' = [w \in Slot |-> CASE w = starts -> "body"
                               [] w = restores -> "failed"
                               [] w \in gone /\ Doomed(w) -> Ended(w)
                               [] w \in gone /\ ~Doomed(w) -> "dead"
                               [] OTHER -> pc[w]]
    /\ todo' = [w \in Slot |-> IF w \in gone THEN {} ELSE todo[w]]
    /\ seen' = [w \in Slot |-> IF w \in gone THEN Nothing ELSE seen[w]]
    /\ claim' = [w \in Slot |-> IF w \in gone THEN Nothing ELSE claim[w]]
    /\ empty' = [w \in Slot |-> empty[w] /\ w \notin gone]
    /\ branches' = {b \in branches : Whole \/ Owner(b) \notin gone \/ b > 20 \/ Pending(Owner(b))}
    /\ request' = [r \in Requests |-> IF r \in gone /\ ~Pending(r) THEN NoRequest ELSE request[r]]
    /\ UNCHANGED <<head, onto, hand>>

Gone(lane, finished) == {w \in InLane(lane) : w = finished \/ pc[w] = "dead" \/ Doomed(w)}

HandOut(new, commit, finished, restores) ==
    LET next == handed + 1 IN
    /\ handed < Slots
    /\ handed' = next /\ current' = [current EXCEPT ![new.lane] = next]
    /\ task' = [task EXCEPT ![next] = new]
    /\ input' = [input EXCEPT ![next] = commit]
    /\ Clients(Gone(new.lane, finished), next, restores)

\* In a calm world an attempt is given up only after it has failed.
MayGiveUp(l) == current[l] # None /\ ("calm" \in World => pc[current[l]] \in {"dead", "failed"})

\* A workflow starts at any time, from the head or from the first commit. The lanes of a fork share the input of the workflow.
StartLane(l) ==
    /\ InLane(l) = {}
    /\ \E commit \in (IF Forked THEN {Root} ELSE {Root, head}) :
        HandOut([lane |-> l, step |-> 1, retry |-> 0], commit, None, None)
    /\ UNCHANGED out

\* The attempt is given up, and a new one takes its place. The old one may be dead, slow, or about to publish.
Retry(l) ==
    /\ MayGiveUp(l)
    /\ HandOut([task[current[l]] EXCEPT !.retry = @ + 1], input[current[l]], None, None)
    /\ UNCHANGED out

\* The attempt is given up, and no other takes its place, at least not before a rerun.
GiveUp(l) ==
    /\ MayGiveUp(l) /\ (Lanes > 1 \/ Reruns > 0)
    /\ current' = [current EXCEPT ![l] = None]
    /\ Clients(Gone(l, None), None, None)
    /\ UNCHANGED <<task, input, handed, out>>

\* The same task id with the same retry count is handed out again under a new poll.
Rerun(l) ==
    /\ InLane(l) # {} /\ SpentReruns < Reruns
    /\ LET last == LastOf(l) IN
        /\ ~Completed(task[last])
        /\ HandOut(task[last], input[last], None, None)
    /\ UNCHANGED out

\* An optional step timed out: the workflow continues from the output of the previous step.
SkipStep(l) ==
    /\ "optional-step" \in World /\ MayGiveUp(l) /\ task[current[l]].step < Steps
    /\ HandOut([lane |-> l, step |-> task[current[l]].step + 1, retry |-> 0], input[current[l]], None, None)
    /\ UNCHANGED out

\* A step may be wired to the workflow's input instead of the step before it.
NextInputs(w) == {claim[w]} \cup (IF "stale-step" \in World THEN {Root} ELSE {})

Accept(w) ==
    LET l == LaneOf(w)
        restores == IF IsCurrent(w) \/ ~On("restore") THEN None ELSE w IN
    /\ out' = [out EXCEPT ![w] = claim[w]]
    /\ IF task[w].step < Steps /\ handed < Slots
       THEN \E commit \in NextInputs(w) : HandOut([lane |-> l, step |-> task[w].step + 1, retry |-> 0], commit, w, restores)
       ELSE current' = [current EXCEPT ![l] = None] /\ Clients(Gone(l, w), None, restores) /\ UNCHANGED <<task, input, handed>>

(***************************************************************************)
(* The client                                                              *)
(***************************************************************************)
At(w, place) == pc[w] = place
Go(w, place) == pc' = [pc EXCEPT ![w] = place]
Ask(w, op) == Go(w, "wait") /\ request' = [request EXCEPT ![w] = [state |-> "sent", op |-> op, record |-> Nothing]]

\* The client ends. Without a pending request its staging branches have no effect any more, so they are deleted as well.
EndAs(w, place) ==
    /\ Go(w, place)
    /\ todo' = [todo EXCEPT ![w] = {}] /\ seen' = [seen EXCEPT ![w] = Nothing]
    /\ claim' = [claim EXCEPT ![w] = Nothing] /\ empty' = [empty EXCEPT ![w] = FALSE]
    /\ request' = [request EXCEPT ![w] = IF Pending(w) THEN @ ELSE NoRequest]
    /\ branches' = {b \in branches : Whole \/ Owner(b) # w \/ (b < 20 /\ Pending(w))}
    /\ UNCHANGED <<conductor, head, onto, hand>>
End(w) == EndAs(w, Ended(w))

\* After a crash only the request that was already sent continues.
Crash(w) == Whole /\ pc[w] \notin {"idle", "dead"} /\ EndAs(w, "dead")

Restoring == {"restore look", "restore list", "restore check", "restore barrier", "restore still"}

\* Any step may fail. That matters only if the report of the failure makes the worker restore; otherwise it equals a crash.
Fail(w) ==
    /\ pc[w] \notin {"idle", "dead", "failed"} \cup Restoring
    /\ Ended(w) = "failed" /\ Completed(task[w]) /\ End(w)

\* Try: a writer announces itself by its staging branch. With an empty diff there is nothing to stage, but there may be a handle
\* already where the body needed one.
Stage(w) ==
    /\ At(w, "body") /\ TRUE \in Changes /\ Go(w, "list")
    /\ branches' = IF On("announce-first") THEN branches \cup {First(w)} ELSE branches
    /\ UNCHANGED <<conductor, head, onto, hand, request, empty, todo, seen, claim>>

FindEmpty(w) ==
    /\ At(w, "body") /\ FALSE \in Changes /\ Go(w, "list")
    /\ empty' = [empty EXCEPT ![w] = TRUE]
    /\ branches' = IF "early-handle" \in World THEN branches \cup {First(w)} ELSE branches
    /\ UNCHANGED <<conductor, head, onto, hand, request, todo, seen, claim>>

\* An attempt without a change has announced itself once it has made a handle.
Announced(w) == ~empty[w] \/ seen[w] # Nothing

\* Listed before the attempt fence, deleted after it: what was there before the fence belongs to no successor of w.
List(w) ==
    /\ At(w, "list") /\ Go(w, IF On("announce-first") \/ Announced(w) = (seen[w] # Nothing) THEN "fence" ELSE "stage")
    /\ todo' = [todo EXCEPT ![w] = {b \in branches : Owner(b) # w}]
    /\ UNCHANGED <<conductor, lake, empty, seen, claim>>

StageLate(w) ==
    /\ At(w, "stage") /\ Go(w, "fence")
    /\ branches' = branches \cup {First(w)}
    /\ UNCHANGED <<conductor, head, onto, hand, request, empty, todo, seen, claim>>

\* Rivals that Conductor still waits for; an earlier execution of the same task is not one of them. They are ordered by start of
\* the workflow, then of the task.
IsLive(branch, w) == LET t == task[Owner(branch)] IN Unfinished(t) /\ t # task[w]
LiveRivals(w) == {b \in todo[w] : IsLive(b, w)}
Precedes(v, w) == Workflow(v) < Workflow(w) \/ (Workflow(v) = Workflow(w) /\ v < w)
Yields(w) == On("order") /\ Announced(w) /\ \E b \in LiveRivals(w) : Precedes(CurrentOf(Owner(b)), w)

\* The rivals that w revokes.
Revocable(w) ==
    {b \in todo[w] : /\ On("revoke")
                     /\ Announced(w) \/ ~IsLive(b, w)
                     /\ On("peers") \/ task[Owner(b)] # task[w]}

AskAboutRivals(w) ==
    IF Yields(w) THEN End(w)
    ELSE /\ Go(w, "revoke") /\ todo' = [todo EXCEPT ![w] = Revocable(w)]
         /\ UNCHANGED <<conductor, lake, empty, seen, claim>>

\* The attempt fence: Conductor waits for this execution at this moment.
Fence(w) ==
    /\ At(w, "fence")
    /\ IF PassesFence(w) \/ (seen[w] # Nothing /\ ~On("fenced-handle"))
       THEN IF Whole THEN Go(w, "order") /\ UNCHANGED <<conductor, lake, empty, todo, seen, claim>> ELSE AskAboutRivals(w)
       ELSE End(w)

Order(w) == At(w, "order") /\ AskAboutRivals(w)

\* All in one step: deleting a branch earlier has the same effect as a pause of its owner. A delete that fails ends the attempt.
Revoke(w) ==
    /\ At(w, "revoke") /\ Go(w, IF seen[w] = Nothing THEN "decide" ELSE "barrier")
    /\ branches' = branches \ todo[w] /\ todo' = [todo EXCEPT ![w] = {}]
    /\ UNCHANGED <<conductor, head, onto, hand, request, empty, seen, claim>>

\* The barrier rewrites the target's record without moving it, so every request that holds the record starts over and resolves its
\* source again. It does not matter who deleted the source, or when: a barrier comes directly before every relocation.
Restarted(r) == IF request[r].state = "held" THEN [request[r] EXCEPT !.state = "sent", !.record = Nothing] ELSE request[r]
Interrupt == request' = IF On("barrier") THEN [r \in Requests |-> Restarted(r)] ELSE request
Barrier(w) ==
    /\ At(w, "barrier") /\ Go(w, "still") /\ Interrupt
    /\ UNCHANGED <<conductor, head, onto, hand, branches, empty, todo, seen, claim>>

\* The branch of an execution that has ended is deleted by its cleanup or by an operator; "vanish": any branch, at any time.
Vanish(w) ==
    /\ \E b \in branches :
        /\ Owner(b) = w /\ branches' = branches \ {b}
        /\ ("vanish" \in World) \/ (pc[w] \in {"dead", "failed"} /\ b < 20)
    /\ UNCHANGED <<conductor, head, onto, hand, request, client>>

\* What Conductor says about the task that the labels of commit c name; c is directly on w's input.
Standing(c, w) ==
    IF IsByHand(c) THEN "unlabelled"
    ELSE LET t == task[Author(c)] IN
         CASE Completed(t) /\ Output(t) = c -> "accepted"
           [] Completed(t) /\ Output(t) = input[w] -> "abandoned"
           [] Completed(t) /\ Output(t) \notin {c, input[w]} -> IF On("displaced") THEN "displaced" ELSE "abandoned"
           [] ~Completed(t) /\ Unfinished(t) /\ t # task[w] -> "live"
           [] OTHER -> "abandoned"

MayRemove(c, w) ==
    \/ ~On("verify-abandoned")
    \/ Standing(c, w) = "abandoned"
    \/ Standing(c, w) = "unlabelled" /\ Unlabelled = "replace"

\* The head is another result of the task whose accepted result is w's input: a late report after a rerun.
IsBeside(c, w) ==
    /\ On("restore") /\ c \notin {Root, input[w]} /\ ~IsByHand(c)
    /\ Parent(c) = Parent(input[w])
    /\ Completed(task[Author(c)]) /\ Output(task[Author(c)]) = input[w]

Plan(w) ==
    CASE head = input[w] -> IF empty[w] THEN "keep" ELSE "merge"
      [] head # input[w] /\ Parent(head) = input[w] /\ MayRemove(head, w) -> IF empty[w] THEN "back" ELSE "replace"
      [] head # input[w] /\ IsBeside(head, w) -> IF empty[w] THEN "back" ELSE "replace"
      [] OTHER -> "refuse"

\* Read the head, ask about its task, decide. For a merge a pause between reading and acting is a request that lakeFS gets late.
Decide(w) ==
    /\ At(w, "decide")
    /\ CASE Plan(w) = "keep" ->
               /\ Go(w, "report") /\ claim' = [claim EXCEPT ![w] = input[w]]
               /\ UNCHANGED <<conductor, lake, empty, todo, seen>>
         [] Plan(w) = "merge" ->
               Ask(w, "merge") /\ UNCHANGED <<conductor, head, onto, hand, branches, empty, todo, seen, claim>>
         [] Plan(w) \in {"replace", "back"} ->
               /\ Go(w, IF Plan(w) = "back" /\ On("handle") THEN "handle" ELSE "again")
               /\ seen' = [seen EXCEPT ![w] = head]
               /\ UNCHANGED <<conductor, lake, empty, todo, claim>>
         [] OTHER -> End(w)

\* A handle that turns out to be necessary is made after the list and the fence, so both are repeated, and the order applies.
MakeHandle(w) ==
    /\ At(w, "handle") /\ Go(w, IF On("list-again") THEN "list" ELSE "again")
    /\ branches' = IF "early-handle" \in World THEN branches ELSE branches \cup {First(w)}
    /\ UNCHANGED <<conductor, head, onto, hand, request, empty, todo, seen, claim>>

\* There is already a claim only if the staged commit replaces a merge.
Removal(w) == IF seen[w] = Merged(w) /\ claim[w] = Nothing THEN "undo" ELSE IF empty[w] THEN "back" ELSE "replace"

\* The head must not have moved since it was judged.
RequireStill(w) ==
    IF head = seen[w] THEN Ask(w, Removal(w)) /\ UNCHANGED <<conductor, head, onto, hand, branches, empty, todo, seen, claim>>
    ELSE End(w)
Again(w) ==
    /\ At(w, "again")
    /\ IF PassesFence(w) THEN Go(w, "barrier") /\ UNCHANGED <<conductor, lake, empty, todo, seen, claim>> ELSE End(w)
Still(w) == At(w, "still") /\ RequireStill(w)

Target(r) ==
    CASE request[r].op = "merge" -> Merged(r)
      [] request[r].op = "replace" -> Staged(r)
      [] request[r].op = "back" -> input[r]
      [] request[r].op = "undo" -> onto[r]
      [] request[r].op = "restore" -> Output(task[Client(r)])

Answer(w) ==
    /\ At(w, "wait") /\ request[w].state \in {"applied", "refused"}
    /\ IF request[w].state = "refused" \/ request[w].op = "undo" THEN End(w)
       ELSE LET mends == request[w].op = "merge" /\ onto[w] # input[w] /\ On("verify") IN
            /\ Go(w, IF mends THEN "mend" ELSE "report")
            /\ claim' = [claim EXCEPT ![w] = IF mends THEN Nothing ELSE Target(w)]
            /\ request' = [request EXCEPT ![w] = NoRequest]
            /\ UNCHANGED <<conductor, head, onto, hand, branches, empty, todo, seen>>

\* The merge met a commit that was not there when the head was read. If that commit is abandoned, the staged commit
\* replaces both; a commit made by hand never counts as abandoned here. Otherwise w removes its own commit again.
Mend(w) ==
    LET isNext == Parent(onto[w]) = input[w]
        mends == ~On("verify-mend") \/ (isNext /\ Standing(onto[w], w) = "abandoned") IN
    /\ At(w, "mend")
    /\ IF isNext /\ ~PassesFence(w) THEN End(w)
       ELSE /\ Go(w, IF mends THEN "barrier" ELSE "undo")
            /\ seen' = [seen EXCEPT ![w] = Merged(w)]
            /\ claim' = [claim EXCEPT ![w] = IF mends THEN Staged(w) ELSE Nothing]
            /\ UNCHANGED <<conductor, lake, empty, todo>>

Undo(w) ==
    /\ At(w, "undo") /\ Go(w, IF On("undo-claim") THEN "list" ELSE "again")
    /\ branches' = branches \cup {Second(w)}
    /\ UNCHANGED <<conductor, head, onto, hand, request, empty, todo, seen, claim>>

\* The reply is lost; lakeFS may have applied the request, or may apply it later. One read of the head may decide it. The own
\* staging branch is deleted before or after that: see Vanish. (For a client whose report comes too late this equals a crash.)
LoseAnswer(w) ==
    /\ At(w, "wait") /\ (Whole \/ Accepts(w)) /\ request[w].op # "undo" /\ "calm" \notin World
    /\ Go(w, "rescue")
    /\ UNCHANGED <<conductor, lake, empty, todo, seen, claim>>

\* What w claims is the commit that the branch shows, if the labels of that commit name this execution. Without that
\* condition a commit with the same content on the same input would count as its own.
LooksRight(w) == head # input[w] /\ Parent(head) = input[w]
Shown(w) ==
    CASE request[w].op = "merge" -> LooksRight(w) /\ (On("own-merge") => head = Merged(w))
      [] request[w].op = "replace" /\ ~On("own-commit") -> LooksRight(w)
      [] OTHER -> head = Target(w)

Rescue(w) ==
    /\ At(w, "rescue")
    /\ IF Shown(w)
       THEN /\ claim' = [claim EXCEPT ![w] = head] /\ Go(w, "report")
            /\ request' = [request EXCEPT ![w] = IF Pending(w) THEN @ ELSE NoRequest]
            /\ UNCHANGED <<conductor, head, onto, hand, branches, empty, todo, seen>>
       ELSE End(w)

\* The content differs, or the read fails.
RescueFails(w) == At(w, "rescue") /\ Shown(w) /\ (request[w].op = "merge" \/ Whole) /\ End(w)

\* Cleanup after a finished request is not modelled: it takes away no right to publish, and a branch that stays is the worse case.
Report(w) ==
    /\ At(w, "report")
    /\ IF Accepts(w) THEN Accept(w) ELSE End(w)

(***************************************************************************)
(* Restore: Conductor has completed w's task with another commit than the  *)
(* branch shows. w is not current, so all that publish from now on delete  *)
(* its third staging branch.                                               *)
(***************************************************************************)
Displaces(c, w) ==
    LET accepted == Output(task[w]) IN
    /\ accepted \notin {c, Parent(c)} /\ Parent(accepted) = input[w]
    /\ c = input[w] \/ (c # Root /\ ~IsByHand(c) /\ task[Author(c)] = task[w] /\ Parent(c) = input[w])

\* The own branches are deleted by now, so after the barrier the own request has been applied or never will be.
Restore(w) ==
    /\ At(w, "failed") /\ Completed(task[w]) /\ Go(w, "restore look")
    /\ branches' = branches \ {First(w), Second(w)}
    /\ request' = IF On("restore-barrier") THEN [r \in Requests |-> Restarted(r)] ELSE request
    /\ UNCHANGED <<conductor, head, onto, hand, empty, todo, seen, claim>>

RestoreLook(w) ==
    /\ At(w, "restore look")
    /\ IF Displaces(head, w)
       THEN /\ Go(w, "restore list") /\ seen' = [seen EXCEPT ![w] = head]
            /\ branches' = branches \cup {Third(w)}
            /\ UNCHANGED <<conductor, head, onto, hand, request, empty, todo, claim>>
       ELSE EndAs(w, "dead")

RestoreList(w) ==
    /\ At(w, "restore list") /\ Go(w, "restore check")
    /\ todo' = [todo EXCEPT ![w] = branches \ {Third(w)}]
    /\ UNCHANGED <<conductor, lake, empty, seen, claim>>

\* Another execution of the same task may be restoring the same commit.
RestoresTheSame(b, w) == On("restore-peers") /\ b > 20 /\ task[Owner(b)] = task[w]

RestoreCheck(w) ==
    /\ At(w, "restore check")
    /\ IF LiveRivals(w) # {} THEN EndAs(w, "dead")
       ELSE /\ Go(w, "restore barrier")
            /\ branches' = branches \ {b \in todo[w] : ~RestoresTheSame(b, w)} /\ todo' = [todo EXCEPT ![w] = {}]
            /\ UNCHANGED <<conductor, head, onto, hand, request, empty, seen, claim>>

RestoreBarrier(w) ==
    /\ At(w, "restore barrier") /\ Go(w, "restore still") /\ Interrupt
    /\ UNCHANGED <<conductor, head, onto, hand, branches, empty, todo, seen, claim>>

\* Nothing follows the reply.
RestoreStill(w) ==
    /\ At(w, "restore still")
    /\ IF head = seen[w]
       THEN /\ Go(w, "dead") /\ seen' = [seen EXCEPT ![w] = Nothing]
            /\ request' = [request EXCEPT ![Restoration(w)] = [state |-> "sent", op |-> "restore", record |-> Nothing]]
            /\ UNCHANGED <<conductor, head, onto, hand, branches, empty, todo, claim>>
       ELSE EndAs(w, "dead")

(***************************************************************************)
(* lakeFS, and people                                                      *)
(***************************************************************************)
Source(r) == CASE request[r].op = "restore" -> Third(Client(r)) [] request[r].op = "undo" -> Second(r) [] OTHER -> First(r)
NamesBranch(r) == On("byname") /\ (request[r].op = "back" => On("handle"))

\* Branches that only this request could use are deleted with it.
Reply(r, state) ==
    LET w == Client(r)
        waits == r = w /\ pc[w] \in {"wait", "rescue"} IN
    /\ request' = [request EXCEPT ![r] = IF waits THEN [@ EXCEPT !.state = state, !.record = Nothing] ELSE NoRequest]
    /\ branches' = {b \in branches : \/ Whole \/ Owner(b) # w
                                      \/ IF r = w THEN b > 20 \/ pc[w] \notin {"dead", "failed"} ELSE b < 20}

Hold(r) ==
    /\ request[r].state = "sent"
    /\ IF NamesBranch(r) /\ Source(r) \notin branches THEN Reply(r, "refused")
       ELSE request' = [request EXCEPT ![r] = [@ EXCEPT !.state = "held", !.record = head]] /\ UNCHANGED branches
    /\ UNCHANGED <<conductor, client, head, onto, hand>>

Apply(r) ==
    /\ request[r].state = "held"
    /\ IF request[r].record # head
       THEN /\ request' = [request EXCEPT ![r] = [@ EXCEPT !.state = "sent", !.record = Nothing]]
            /\ UNCHANGED <<head, onto, branches>>
       ELSE /\ Reply(r, "applied")
            /\ head' = Target(r)
            /\ onto' = IF request[r].op = "merge" THEN [onto EXCEPT ![r] = head] ELSE onto
    /\ UNCHANGED <<conductor, client, hand>>

\* "waiting-hands": not while a relocation is under way, which moves the branch wherever it is.
CommitByHand ==
    /\ Len(hand) < Hands
    /\ "waiting-hands" \in World => \A r \in Requests : Pending(r) => request[r].op = "merge"
    /\ hand' = Append(hand, head) /\ head' = ByHand(Len(hand) + 1)
    /\ UNCHANGED <<conductor, client, onto, branches, request>>

Next ==
    \/ CommitByHand
    \/ \E l \in Lane : StartLane(l) \/ Retry(l) \/ GiveUp(l) \/ Rerun(l) \/ SkipStep(l)
    \/ \E w \in Slot :
        \/ Stage(w) \/ FindEmpty(w) \/ List(w) \/ StageLate(w) \/ Fence(w) \/ Order(w) \/ Revoke(w) \/ Barrier(w) \/ Vanish(w)
        \/ Decide(w) \/ MakeHandle(w) \/ Again(w) \/ Still(w) \/ Answer(w) \/ Mend(w) \/ Undo(w)
        \/ LoseAnswer(w) \/ Rescue(w) \/ RescueFails(w) \/ Report(w) \/ Crash(w) \/ Fail(w)
        \/ Restore(w) \/ RestoreLook(w) \/ RestoreList(w) \/ RestoreCheck(w) \/ RestoreBarrier(w) \/ RestoreStill(w)
    \/ \E r \in Requests : Hold(r) \/ Apply(r)

Spec == Init /\ [][Next]_vars

(***************************************************************************)
(* What has to hold                                                        *)
(***************************************************************************)
Accepted == {w \in Slot : out[w] # Nothing}
\* The report of an execution from before a rerun.
IsLate(w) == \E v \in Slot : v > w /\ task[v] = task[w]
\* A publication, or the first commit. An attempt without a change whose input is not an accepted commit (but one made by hand,
\* or an unaccepted one) has this input as its output, which does not make the commit a publication.
IsPublication(c) == c = Root \/ \E w \in Accepted : out[w] = c /\ input[w] # c

\* The branch still contains everything that Conductor accepted.
NeverLost == \A w \in Accepted : IsPublication(out[w]) /\ ~IsLate(w) => out[w] \in History(head)

\* The same, without the exception: see IsPublication.
NeverLostAtAll == \A w \in Accepted : ~IsLate(w) => out[w] \in History(head)

\* Each accepted output is its input, or directly on it.
OnItsInput == \A w \in Accepted : out[w] = input[w] \/ Parent(out[w]) = input[w]

\* A commit made by hand stays on the branch. (Unlabelled: "refuse"; World: "waiting-hands".)
HandKept == \A i \in DOMAIN hand : ByHand(i) \in History(head)

\* For one lane. Commits of steps that are over, on top of what was accepted: none after a publication. After an attempt without
\* a change there may be one, directly on it, which is what the next step takes for abandoned and replaces. (With several lanes
\* an attempt of another one may publish on top and then be given up.)
Last == CHOOSE w \in Accepted : \A v \in Accepted : task[v].step <= task[w].step
Leftovers == {c \in History(head) \ History(out[Last]) : ~IsByHand(c) /\ task[Author(c)].step <= task[Last].step}
NeverBuried ==
    Accepted = {} \/ Leftovers = {}
    \/ (out[Last] = input[Last] /\ Cardinality(Leftovers) = 1 /\ \A c \in Leftovers : Parent(c) = out[Last])

\* After a late report to the one lane the accepted commit is on the branch, or the branch is where the next attempt, which reads
\* the accepted one, or a restoration may put it back: at the input, at another result of the same task, or at a merge that met
\* one and that its attempt removes again.
OtherResult(c, w) == c # Nothing /\ c # Root /\ ~IsByHand(c) /\ task[Author(c)] = task[w] /\ Parent(c) = input[w]
Restorable == \A w \in Accepted : IsLate(w) /\ out[w] # input[w] =>
    \/ out[w] \in History(head)
    \/ head = input[w]
    \/ OtherResult(head, w)
    \/ OtherResult(Parent(head), w) /\ \A v \in Accepted : out[v] # head

Quiet ==
    /\ \A w \in Slot : pc[w] \in {"idle", "dead"} \/ (pc[w] = "failed" /\ ~Completed(task[w]))
    /\ \A r \in Requests : request[r] = NoRequest

\* After a late report to the one lane's last step, once all clients have ended without a crash, the accepted commit is on the
\* branch.
Restored == Quiet => \A w \in Accepted : IsLate(w) => out[w] \in History(head)

\* In a calm world: once all clients have ended, at least one has published.
OneWins == Quiet /\ (\A l \in Lane : InLane(l) # {}) => Accepted # {}

\* Not claimed by the protocol: a fresh attempt of the one lane always finds a head that it can publish on or replace.
Mending(w) ==
    /\ onto[w] # Nothing
    /\ pc[w] \in {"wait", "rescue", "mend", "undo", "list", "fence", "order", "revoke", "again", "barrier", "still"}
NeverStuck == \/ current[1] = None
              \/ LET base == input[current[1]] IN head = base \/ Parent(head) = base
              \/ \E w \in Slot : Mending(w)
=============================================================================
