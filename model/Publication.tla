---------------------------- MODULE Publication ----------------------------
(***************************************************************************)
(* How attempts publish to one target branch, step after step of one       *)
(* workflow. Three parties take turns in any order:                        *)
(*                                                                         *)
(*   Conductor   hands out executions: retries, reruns, the next step      *)
(*   clients     one per execution; may stop for ever after any step       *)
(*   lakeFS      one pending request per execution, which it may finish    *)
(*               long after the client has given up or died                *)
(*                                                                         *)
(* A branch update of lakeFS is an optimistic loop: read the target's      *)
(* record and resolve the source (Hold), write if the record still has the *)
(* value that was read (Apply), else begin again. The record is compared   *)
(* by value, so a head that leaves and comes back is not noticed: the      *)
(* model lets that happen more often than lakeFS does.                     *)
(*                                                                         *)
(* What a task writes is not modelled. Executions may well write the very  *)
(* same bytes, so wherever content would be compared both answers are      *)
(* tried.                                                                  *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    Slots,    \* executions that Conductor can hand out in all
    Steps,    \* steps of the workflow; each reads what the one before it left
    Reruns,   \* executions that share task id and retry count with an earlier one
    Scope,    \* whose staging branches are revoked: those of the same logical "task", or of the same "target" branch
    ListFirst,\* those are listed before the attempt fence, not after it
    Off,      \* rules that are switched off
    Whole,    \* a crash is a step of its own and no state is spared (see Doomed); else a client that crashes just does
              \* nothing any more, which looks the same to everybody else
    World     \* behaviour of the surroundings that the protocol does not claim to survive

Rules == {"revoke", "byname", "handle", "verify", "peers", "fenced-handle", "own-commit", "disarm"}
Hazards == {"late-report", "two-per-poll", "optional-step"}
Remedies == {"deep-replace"}
ASSUME Off \subseteq Rules /\ World \subseteq (Hazards \cup Remedies)
On(rule) == rule \notin Off

VARIABLES
    head,     \* the commit that the target branch shows
    onto,     \* onto[w]: the commit that w's merge commit was made on
    task,     \* task[w]: step and retry count, which is all Conductor's task id stands for
    input,    \* input[w]: the commit A that w reads
    current,  \* the execution Conductor waits for; 0 when the workflow is over
    handed,   \* executions handed out so far
    line,     \* what Conductor accepted, oldest first
    pc,       \* where each client is
    empty,    \* empty[w]: the diff of w is empty
    branch,   \* branch[w]: w's staging branch exists
    todo,     \* todo[w]: staging branches w has listed and not yet deleted
    claim,    \* claim[w]: the commit that w is going to report
    request   \* request[w]: what lakeFS was asked, and how far it is

conductor == <<task, input, current, handed, line>>
lake == <<head, onto, branch, request>>
client == <<pc, empty, todo, claim>>
vars == <<conductor, lake, client>>

Slot == 1..Slots
Nobody == 0
Root == 0                    \* the commit the workflow starts from
Staged(w) == w               \* C, the commit on w's staging branch
Merged(w) == 10 + w          \* the commit that a merge by w makes
Nothing == 99
NoRequest == [state |-> "none", op |-> "none", record |-> Nothing]

Author(c) == IF c > 10 THEN c - 10 ELSE c
Parent(c) == IF c = Root THEN Nothing ELSE IF c > 10 THEN onto[c - 10] ELSE input[c]
RECURSIVE History(_)
History(c) == IF c = Nothing THEN {} ELSE {c} \cup History(Parent(c))

Last == line[Len(line)]
Base == Last.commit

Init ==
    /\ head = Root
    /\ onto = [w \in Slot |-> Nothing]
    /\ task = [w \in Slot |-> IF w = 1 THEN [step |-> 1, retry |-> 0] ELSE [step |-> 0, retry |-> 0]]
    /\ input = [w \in Slot |-> Root]
    /\ current = 1 /\ handed = 1
    /\ line = <<[commit |-> Root, exact |-> TRUE, step |-> 0]>>
    /\ pc = [w \in Slot |-> IF w = 1 THEN "body" ELSE "idle"]
    /\ empty = [w \in Slot |-> FALSE]
    /\ branch = [w \in Slot |-> FALSE]
    /\ todo = [w \in Slot |-> {}]
    /\ claim = [w \in Slot |-> Nothing]
    /\ request = [w \in Slot |-> NoRequest]

(***************************************************************************)
(* Conductor                                                               *)
(***************************************************************************)
\* When a successor is handed out, an execution that still has a fence before it, or nothing but a report that will not be
\* accepted, can do no more. It ends here and now, with whatever only it could have used; its request goes on. This changes
\* nothing for the others and spares the checker most of the states.
Doomed(w) ==
    /\ ~Whole /\ World \cap {"late-report", "two-per-poll"} = {}
    /\ \/ pc[w] \in {"body", "fence", "fence again", "rescue", "published", "settled"}
       \/ pc[w] = "list" /\ ListFirst
       \/ pc[w] = "handle" /\ On("fenced-handle")
       \/ pc[w] = "wait" /\ request[w].op # "merge"
Pending(w) == request[w].state \in {"sent", "held"}

HandOut(step, retry, commit, finished) ==
    LET next == handed + 1
        Ends(w) == w = finished \/ pc[w] = "dead" \/ Doomed(w) IN
    /\ handed < Slots
    /\ handed' = next /\ current' = next
    /\ task' = [task EXCEPT ![next] = [step |-> step, retry |-> retry]]
    /\ input' = [input EXCEPT ![next] = commit]
    /\ pc' = [w \in Slot |-> IF w = next THEN "body" ELSE IF Ends(w) THEN "dead" ELSE pc[w]]
    /\ todo' = [w \in Slot |-> IF Ends(w) THEN {} ELSE todo[w]]
    /\ claim' = [w \in Slot |-> IF Ends(w) THEN Nothing ELSE claim[w]]
    /\ empty' = [w \in Slot |-> empty[w] /\ ~Ends(w)]
    /\ branch' = [w \in Slot |-> branch[w] /\ (Whole \/ ~Ends(w) \/ Pending(w))]
    /\ request' = [w \in Slot |-> IF Ends(w) /\ ~Pending(w) THEN NoRequest ELSE request[w]]
    /\ UNCHANGED <<head, onto>>

SpentReruns == Cardinality({w \in 2..handed : task[w] = task[w - 1]})

\* The attempt is given up. Whoever runs it may be dead, slow, or about to publish.
Retry ==
    /\ current # Nobody
    /\ HandOut(task[current].step, task[current].retry + 1, input[current], Nobody)
    /\ UNCHANGED line

\* The same task id with the same retry count is handed out again under a new poll.
Rerun ==
    /\ current # Nobody /\ SpentReruns < Reruns
    /\ HandOut(task[current].step, task[current].retry, input[current], Nobody)
    /\ UNCHANGED line

\* An optional step ran out of time: the workflow goes on from what the step before it left.
SkipStep ==
    /\ "optional-step" \in World
    /\ current # Nobody /\ task[current].step < Steps
    /\ HandOut(task[current].step + 1, 0, input[current], Nobody)
    /\ UNCHANGED line

IsCurrent(w) == w = current
SameTaskId(w) == current # Nobody /\ task[w] = task[current]
Accepts(w) == IsCurrent(w) \/ ("late-report" \in World /\ SameTaskId(w))
PassesFence(w) == IsCurrent(w) \/ ("two-per-poll" \in World /\ SameTaskId(w))

Accept(w) ==
    /\ line' = Append(line, [commit |-> claim[w], exact |-> pc[w] = "published", step |-> task[w].step])
    /\ IF task[w].step < Steps /\ handed < Slots
       THEN HandOut(task[w].step + 1, 0, claim[w], w)
       ELSE /\ current' = Nobody /\ pc' = [pc EXCEPT ![w] = "dead"]
            /\ claim' = [claim EXCEPT ![w] = Nothing]
            /\ UNCHANGED <<task, input, handed, todo, empty, lake>>

(***************************************************************************)
(* The client                                                              *)
(***************************************************************************)
At(w, place) == pc[w] = place
Go(w, place) == pc' = [pc EXCEPT ![w] = place]
\* An answer that nobody waits for any more is forgotten, which keeps the state space small.
Forget(w) == request' = [request EXCEPT ![w] = IF @.state \in {"applied", "refused"} THEN NoRequest ELSE @]

First == IF ListFirst THEN "list" ELSE "fence"

\* Nothing follows a crash but what lakeFS was already asked to do.
Crash(w) ==
    /\ Whole /\ pc[w] \notin {"idle", "dead"}
    /\ Go(w, "dead") /\ todo' = [todo EXCEPT ![w] = {}] /\ claim' = [claim EXCEPT ![w] = Nothing]
    /\ empty' = [empty EXCEPT ![w] = FALSE] /\ Forget(w)
    /\ UNCHANGED <<conductor, head, onto, branch>>

\* Try. With an empty diff there is nothing to stage.
Stage(w) ==
    /\ At(w, "body") /\ Go(w, First)
    /\ branch' = [branch EXCEPT ![w] = TRUE]
    /\ UNCHANGED <<conductor, head, onto, request, empty, todo, claim>>

FindEmpty(w) ==
    /\ At(w, "body") /\ Go(w, First)
    /\ empty' = [empty EXCEPT ![w] = TRUE]
    /\ UNCHANGED <<conductor, lake, todo, claim>>

\* Whose right to publish w takes away. "target" is what the program does; "task" is the least that is enough as long as
\* every other step of the workflow is over.
Revocable(v, w) ==
    /\ v # w /\ branch[v]
    /\ CASE Scope = "target" -> TRUE
         [] On("peers") -> task[v].step = task[w].step /\ task[v].retry <= task[w].retry
         [] OTHER -> task[v].step = task[w].step /\ task[v].retry < task[w].retry

\* Listed before the attempt fence, deleted after it: whoever was there before the fence and is not w is no newer than w.
List(w) ==
    /\ At(w, "list") /\ Go(w, IF ListFirst THEN "fence" ELSE "revoke")
    /\ todo' = [todo EXCEPT ![w] = IF On("revoke") THEN {v \in Slot : Revocable(v, w)} ELSE {}]
    /\ UNCHANGED <<conductor, lake, empty, claim>>

\* The second attempt fence: at this moment Conductor waits for this very execution.
Fence(w) ==
    /\ At(w, "fence")
    /\ IF PassesFence(w) THEN Go(w, IF ListFirst THEN "revoke" ELSE "list") /\ UNCHANGED todo
       ELSE Go(w, "dead") /\ todo' = [todo EXCEPT ![w] = {}]
    /\ UNCHANGED <<conductor, lake, empty, claim>>

\* The deletes may as well happen all at once, at the time of the last one: an owner whose branch goes earlier can do no
\* more than one that pauses. A delete that fails ends the attempt (Crash).
Revoke(w) ==
    /\ At(w, "revoke") /\ Go(w, "decide")
    /\ branch' = [v \in Slot |-> branch[v] /\ v \notin todo[w]] /\ todo' = [todo EXCEPT ![w] = {}]
    /\ UNCHANGED <<conductor, head, onto, request, empty, claim>>

\* A handle that turned out to be needed comes after the fence, so it needs a fence of its own.
MakeHandle(w) ==
    /\ At(w, "handle") /\ branch' = [branch EXCEPT ![w] = TRUE]
    /\ IF On("fenced-handle")
       THEN Go(w, "fence again") /\ UNCHANGED request
       ELSE Go(w, "wait") /\ request' = [request EXCEPT ![w] = [state |-> "sent", op |-> "back", record |-> Nothing]]
    /\ UNCHANGED <<conductor, head, onto, empty, todo, claim>>

FenceAgain(w) ==
    /\ At(w, "fence again") /\ Go(w, IF PassesFence(w) THEN "decide" ELSE "dead")
    /\ UNCHANGED <<conductor, lake, empty, todo, claim>>

Abandoned(w) ==
    IF "deep-replace" \in World THEN input[w] \in History(head) ELSE Parent(head) = input[w]

Plan(w) ==
    CASE head = input[w] -> IF empty[w] THEN "keep" ELSE "merge"
      [] head # input[w] /\ Abandoned(w) -> IF empty[w] THEN "back" ELSE "replace"
      [] OTHER -> "refuse"

Ask(w, op) ==
    /\ Go(w, "wait") /\ request' = [request EXCEPT ![w] = [state |-> "sent", op |-> op, record |-> Nothing]]

\* Read the head, decide, act. A pause between reading and acting is a request that lakeFS gets late.
Decide(w) ==
    /\ At(w, "decide")
    /\ CASE Plan(w) = "keep"   -> Go(w, "settled") /\ claim' = [claim EXCEPT ![w] = input[w]] /\ UNCHANGED request
         [] Plan(w) = "refuse" -> Go(w, "dead") /\ UNCHANGED <<request, claim>>
         [] Plan(w) = "back" /\ On("handle") /\ ~branch[w] -> Go(w, "handle") /\ UNCHANGED <<request, claim>>
         [] OTHER              -> Ask(w, Plan(w)) /\ UNCHANGED claim
    /\ empty' = [empty EXCEPT ![w] = pc'[w] = "handle"]
    /\ UNCHANGED <<conductor, head, onto, branch, todo>>

Target(w) == IF request[w].op = "back" THEN input[w] ELSE IF request[w].op = "merge" THEN Merged(w) ELSE Staged(w)

\* "published": the branch showed exactly what is claimed, through a request that is used up.
\* "settled": the claim is right, but a child of it may yet appear.
Answer(w) ==
    /\ At(w, "wait") /\ request[w].state \in {"applied", "refused"}
    /\ IF request[w].state = "refused" THEN Go(w, "dead") /\ UNCHANGED claim
       ELSE IF request[w].op = "merge" /\ onto[w] # input[w] /\ On("verify") THEN Go(w, "mend") /\ UNCHANGED claim
       ELSE /\ Go(w, IF request[w].op = "back" THEN "settled" ELSE "published")
            /\ claim' = [claim EXCEPT ![w] = Target(w)]
    /\ Forget(w)
    /\ UNCHANGED <<conductor, head, onto, branch, empty, todo>>

\* Somebody slipped in below the merge. Put the staged commit in place, while the head is still that merge.
Mend(w) ==
    /\ At(w, "mend")
    /\ IF head = Merged(w) THEN Ask(w, "replace") ELSE Go(w, "dead") /\ UNCHANGED request
    /\ UNCHANGED <<conductor, head, onto, branch, empty, todo, claim>>

\* The answer is lost; lakeFS may have done it, be doing it, or do it later. First the own staging branch goes, so that the
\* request cannot begin anew; then one read of the head may settle it. (For a client whose report comes too late anyway
\* this is no different from a crash.)
LoseAnswer(w) ==
    /\ At(w, "wait") /\ (Whole \/ Accepts(w)) /\ Go(w, "rescue")
    /\ branch' = [branch EXCEPT ![w] = branch[w] /\ ~On("disarm")]
    /\ UNCHANGED <<conductor, head, onto, request, empty, todo, claim>>

\* A merge commit bears no mark of its maker: a child of the input with the staged content may be somebody else's.
\* A relocation leads to a known commit, and nothing less will do.
Shown(w) ==
    IF request[w].op = "merge" \/ (request[w].op = "replace" /\ ~On("own-commit"))
    THEN head # input[w] /\ Parent(head) = input[w]
    ELSE head = Target(w)

Rescue(w) ==
    /\ At(w, "rescue")
    /\ \/ /\ Shown(w) /\ claim' = [claim EXCEPT ![w] = head]
          /\ Go(w, IF request[w].op = "replace" THEN "published" ELSE "settled")
       \/ Go(w, "dead") /\ UNCHANGED claim
    /\ Forget(w)
    /\ UNCHANGED <<conductor, head, onto, branch, empty, todo>>

\* Cleanup after a used up request changes no right to publish; the branch that stays is the worse case.
Report(w) ==
    /\ pc[w] \in {"published", "settled"}
    /\ IF Accepts(w) THEN Accept(w)
       ELSE Go(w, "dead") /\ claim' = [claim EXCEPT ![w] = Nothing] /\ UNCHANGED <<conductor, lake, empty, todo>>

(***************************************************************************)
(* lakeFS                                                                  *)
(***************************************************************************)
NamesBranch(w) == On("byname") /\ (request[w].op = "back" => On("handle"))

Reply(w, state) ==
    request' = [request EXCEPT ![w] = IF pc[w] \in {"wait", "rescue"} THEN [@ EXCEPT !.state = state, !.record = Nothing] ELSE NoRequest]

Hold(w) ==
    /\ request[w].state = "sent"
    /\ IF NamesBranch(w) /\ ~branch[w] THEN Reply(w, "refused")
       ELSE request' = [request EXCEPT ![w] = [@ EXCEPT !.state = "held", !.record = head]]
    /\ UNCHANGED <<conductor, client, head, onto, branch>>

Apply(w) ==
    /\ request[w].state = "held"
    /\ IF request[w].record # head
       THEN /\ request' = [request EXCEPT ![w] = [@ EXCEPT !.state = "sent", !.record = Nothing]]
            /\ UNCHANGED <<head, onto>>
       ELSE /\ Reply(w, "applied")
            /\ head' = Target(w)
            /\ onto' = IF request[w].op = "merge" THEN [onto EXCEPT ![w] = head] ELSE onto
    /\ UNCHANGED <<conductor, client, branch>>

Next ==
    \/ Retry \/ Rerun \/ SkipStep
    \/ \E w \in Slot :
        \/ Stage(w) \/ FindEmpty(w) \/ List(w) \/ Fence(w) \/ Revoke(w) \/ Decide(w) \/ MakeHandle(w) \/ FenceAgain(w)
        \/ Answer(w) \/ Mend(w) \/ LoseAnswer(w) \/ Rescue(w) \/ Report(w) \/ Crash(w)
        \/ Hold(w) \/ Apply(w)

Spec == Init /\ [][Next]_vars

(***************************************************************************)
(* What has to hold                                                        *)
(***************************************************************************)
\* The branch still contains what Conductor accepted last.
NeverLost == Base \in History(head)

\* Accepted outputs form a line: each is its input, or sits directly on it.
OnItsInput == \A i \in 2..Len(line) :
    line[i].commit = line[i - 1].commit \/ Parent(line[i].commit) = line[i - 1].commit

\* Commits of steps that are over, on top of what was accepted: none after a publication. After a
\* no-op there may be one, directly on it, which is what the next step takes for abandoned and replaces.
Leftovers == {c \in History(head) \ History(Base) : task[Author(c)].step <= Last.step}
NeverBuried == IF Last.exact THEN Leftovers = {}
               ELSE Cardinality(Leftovers) <= 1 /\ \A c \in Leftovers : Parent(c) = Base

\* Not claimed by the protocol: a fresh attempt always finds a head that it can publish on or replace.
Mending(w) == pc[w] \in {"wait", "rescue", "mend"} /\ onto[w] # Nothing
NeverStuck == \/ current = Nobody \/ head = Base \/ Parent(head) = Base
              \/ \E w \in Slot : Mending(w)
=============================================================================
