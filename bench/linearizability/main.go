// Checks with Porcupine whether the history of one branch is linearizable as an append-only list of commits.
//
//	linearizability [-timeout 60s] [-html FILE] < history.json > verdict.json
//
// The list begins with the base commit. The operations:
//
//   - publish, input A, output M: legal if and only if the last commit of the list is A; appends M.
//   - publish without a change (output equals input): legal if and only if the last commit is A; appends nothing. An
//     attempt without a change has read the head between its start and its report and found its input there, so within
//     that interval the list must have ended with A. The weaker condition "A is somewhere in the list" would accept an
//     attempt that was allowed to complete on an outdated input.
//   - read: legal if and only if the list is exactly the commits that were read.
//
// A publication without a return time is one that Conductor did not accept: it may have happened at any time after its
// call, or never. In the first case it appends its commit like any other. In the second case it has no effect; because it
// never returns, it can then stand behind every other operation. An unaccepted commit that was replaced before the final
// read is of the second kind. One that is still in the final read is of the first kind, and has to stand directly on its
// own input and directly below the commit of the operation that was given it as input: without such an operation it can
// only be the head.
//
// Exit code 0 with a verdict (also "illegal"), 2 for an unusable history.
package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

const shown = 5 // operations named in an explanation

type history struct {
	Base       string      `json:"base"`
	Operations []operation `json:"operations"`
}

type operation struct {
	Name    string   `json:"name"`
	Client  int      `json:"client"`
	Call    int64    `json:"call"`
	Return  *int64   `json:"return"` // null: not accepted, outcome unknown
	Kind    string   `json:"kind"`   // publish or read
	Input   string   `json:"input"`
	Output  string   `json:"output"`
	NoOp    bool     `json:"noop"`
	Commits []string `json:"commits"` // of a read, oldest first, beginning with the base
}

type verdict struct {
	Verdict     string   `json:"verdict"` // linearizable, illegal, or unknown after a timeout
	Operations  int      `json:"operations"`
	Placed      int      `json:"placed"`      // operations in the largest partial linearization
	Missing     []string `json:"missing"`     // commits of accepted publications that a read does not show
	Unaccepted  []string `json:"unaccepted"`  // commits that a read shows and that were not accepted
	Explanation []string `json:"explanation"` // empty if linearizable
	Seconds     float64  `json:"seconds"`
}

// commits is an immutable list of commits; the state of the model.
type commits struct {
	last  string
	below *commits
	count int
	hash  uint64
}

var seed = maphash.MakeSeed()

func (list *commits) with(commit string) *commits {
	next := &commits{last: commit, below: list, count: 1, hash: maphash.String(seed, commit)}
	if list != nil {
		next.count = list.count + 1
		next.hash ^= list.hash * 1099511628211
	}
	return next
}

func (list *commits) all() []string {
	found := make([]string, 0, list.count)
	for ; list != nil; list = list.below {
		found = append(found, list.last)
	}
	slices.Reverse(found)
	return found
}

func (list *commits) equal(other *commits) bool {
	if list.count != other.count || list.hash != other.hash {
		return false
	}
	for list != other {
		if list.last != other.last {
			return false
		}
		list, other = list.below, other.below
	}
	return true
}

func step(list *commits, op operation) (bool, *commits) {
	switch {
	case op.Kind == "read":
		return slices.Equal(list.all(), op.Commits), list
	case list.last == op.Input && !op.NoOp:
		return true, list.with(op.Output)
	case list.last == op.Input:
		return true, list
	default:
		return op.Return == nil, list
	}
}

func model(base string) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return (*commits)(nil).with(base) },
		Step: func(state, input, _ any) (bool, any) {
			legal, next := step(state.(*commits), input.(operation))
			return legal, next
		},
		Equal:             func(one, other any) bool { return one.(*commits).equal(other.(*commits)) },
		Hash:              func(state any) uint64 { return state.(*commits).hash },
		DescribeOperation: func(input, _ any) string { return input.(operation).String() },
		DescribeState: func(state any) string {
			list := state.(*commits)
			return fmt.Sprintf("%d commits, last %s", list.count, short(list.last))
		},
	}
}

func (op operation) String() string {
	text := fmt.Sprintf("publish %s on %s", short(op.Output), short(op.Input))
	switch {
	case op.Kind == "read":
		text = fmt.Sprintf("read %d commits, last %s", len(op.Commits), short(op.Commits[len(op.Commits)-1]))
	case op.NoOp:
		text = fmt.Sprintf("no change on %s", short(op.Input))
	}
	if op.Return == nil {
		text += ", not accepted"
	}
	if op.Name != "" {
		text = op.Name + ": " + text
	}
	return text
}

func short(commit string) string {
	return commit[:min(len(commit), 12)]
}

func load(source io.Reader) (history, error) {
	var given history
	decoder := json.NewDecoder(source)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&given); err != nil {
		return given, fmt.Errorf("the history is not usable JSON: %w", err)
	}
	if given.Base == "" {
		return given, errors.New("the history names no base commit")
	}
	for at, op := range given.Operations {
		if err := op.usable(); err != nil {
			return given, fmt.Errorf("operation %d (%s): %w", at, op.Name, err)
		}
	}
	return given, nil
}

func (op operation) usable() error {
	switch {
	case op.Return != nil && *op.Return < op.Call:
		return errors.New("it returns before it is called")
	case op.Client < 0:
		return errors.New("the client is negative")
	case op.Kind == "read" && (op.Return == nil || len(op.Commits) == 0):
		return errors.New("a read needs a return time and commits")
	case op.Kind == "read":
		return nil
	case op.Kind != "publish":
		return fmt.Errorf("the kind %q is neither publish nor read", op.Kind)
	case op.Input == "" || op.Output == "":
		return errors.New("a publication needs input and output")
	case op.NoOp != (op.Input == op.Output):
		return errors.New("a publication is without a change if and only if its output is its input")
	}
	return nil
}

func (given history) recorded() []porcupine.Operation {
	found := make([]porcupine.Operation, len(given.Operations))
	for at, op := range given.Operations {
		end := int64(math.MaxInt64)
		if op.Return != nil {
			end = *op.Return
		}
		found[at] = porcupine.Operation{ClientId: op.Client, Input: op, Call: op.Call, Return: end}
	}
	return found
}

func check(given history, timeout time.Duration, html string) (verdict, error) {
	began := time.Now()
	rules := model(given.Base)
	result, info := porcupine.CheckOperationsVerbose(rules, given.recorded(), timeout)
	missing, unaccepted := given.compared()
	found := verdict{
		Operations:  len(given.Operations),
		Missing:     missing,
		Unaccepted:  unaccepted,
		Explanation: []string{},
	}
	placed := largest(info)
	found.Placed = len(placed)
	switch result {
	case porcupine.Ok:
		found.Verdict = "linearizable"
	case porcupine.Illegal:
		found.Verdict = "illegal"
		found.Explanation = given.explain(placed)
	default:
		found.Verdict = "unknown"
		found.Explanation = []string{fmt.Sprintf("no answer within %s", timeout)}
	}
	found.Seconds = time.Since(began).Seconds()
	if html == "" {
		return found, nil
	}
	return found, porcupine.VisualizePath(rules, info, html)
}

// largest returns the indexes of the operations in the largest partial linearization, in its order.
func largest(info porcupine.LinearizationInfo) []int {
	found := []int{}
	for _, partition := range info.PartialLinearizations() {
		for _, sequence := range partition {
			if len(sequence) > len(found) {
				found = sequence
			}
		}
	}
	return found
}

// compared returns what the last read lacks of the accepted publications and what it shows of the unaccepted ones.
func (given history) compared() (missing, unaccepted []string) {
	missing, unaccepted = []string{}, []string{}
	last := given.lastRead()
	if last == nil {
		return missing, unaccepted
	}
	for _, op := range given.Operations {
		visible := slices.Contains(last.Commits, op.Output)
		switch {
		case op.Kind != "publish":
		case op.Return != nil && !visible:
			missing = append(missing, op.Output)
		case op.Return == nil && visible:
			unaccepted = append(unaccepted, op.Output)
		}
	}
	return missing, unaccepted
}

func (given history) lastRead() *operation {
	var last *operation
	for at := range given.Operations {
		if op := &given.Operations[at]; op.Kind == "read" && (last == nil || op.Call > last.Call) {
			last = op
		}
	}
	return last
}

// explain says where the largest partial linearization ends and why none of the operations that could follow it may.
func (given history) explain(placed []int) []string {
	list := (*commits)(nil).with(given.Base)
	for _, at := range placed {
		_, list = step(list, given.Operations[at])
	}
	lines := []string{fmt.Sprintf("%d of %d operations fit in an order; the list then has %d commits and ends with %s",
		len(placed), len(given.Operations), list.count, short(list.last))}
	open := given.next(placed)
	for _, op := range open[:min(len(open), shown)] {
		lines = append(lines, "not possible next: "+op.String()+op.against(list))
	}
	if len(open) > shown {
		lines = append(lines, fmt.Sprintf("and %d more", len(open)-shown))
	}
	return lines
}

// next returns the operations that real time allows directly after those that are placed, by return time.
func (given history) next(placed []int) []operation {
	open := []operation{}
	deadline := int64(math.MaxInt64)
	for at, op := range given.Operations {
		if op.Return != nil && !slices.Contains(placed, at) {
			open = append(open, op)
			deadline = min(deadline, *op.Return)
		}
	}
	open = slices.DeleteFunc(open, func(op operation) bool { return op.Call > deadline })
	slices.SortStableFunc(open, func(one, other operation) int { return cmp.Compare(*one.Return, *other.Return) })
	return open
}

func (op operation) against(list *commits) string {
	if op.Kind != "read" {
		if slices.Contains(list.all(), op.Input) {
			return "; its input is in the list, but not the last commit"
		}
		return "; its input is not in the list"
	}
	have := list.all()
	for at := range min(len(have), len(op.Commits)) {
		if have[at] != op.Commits[at] {
			return fmt.Sprintf("; at position %d the list has %s and the read shows %s", at, short(have[at]), short(op.Commits[at]))
		}
	}
	return fmt.Sprintf("; the list has %d commits", len(have))
}

func main() {
	timeout := flag.Duration("timeout", time.Minute, "give up after this time with the verdict unknown")
	html := flag.String("html", "", "write Porcupine's visualisation to this file")
	flag.Parse()
	given, err := load(os.Stdin)
	if err == nil {
		var found verdict
		if found, err = check(given, *timeout, *html); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(found)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, strings.TrimSpace(err.Error()))
		os.Exit(2)
	}
}
