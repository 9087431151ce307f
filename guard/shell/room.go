package shell

import (
	"github.com/pinta-ai/pinta-agent/guard/shell/plain"
	"mvdan.cc/sh/v3/syntax"
)

// Room is memory for the commands of one text after another: a long script has
// thousands. What it holds is void once it is cleared. The zero value is empty;
// a Room serves one analysis at a time.
type Room struct {
	commands chunks[Command]
	words    chunks[string]
	inputs   chunks[input]
	listed   []*Command // what scripts were said to run, one after the other
	trees    plain.Memory
}

const (
	firstChunk   = 32
	lastChunk    = 2 << 10
	keptCommands = 4 << 10  // 1 MiB
	keptWords    = 32 << 10 // 0.5 MiB
	keptInputs   = 4 << 10
)

// Clear makes all room free again and forgets what was in it.
func (r *Room) Clear() {
	r.commands.clear(keptCommands)
	r.words.clear(keptWords)
	r.inputs.clear(keptInputs)
	if cap(r.listed) > keptCommands {
		r.listed = nil
	}
	clear(r.listed[:cap(r.listed)])
	r.listed = r.listed[:0]
	r.trees.Forget()
}

// list is an empty list that takes n strings before it grows.
func (r *Room) list(n int) []string { return r.words.take(n) }

// listing is an empty list of commands; once it is complete keep takes it.
func (r *Room) listing() []*Command { return r.listed[len(r.listed):] }

func (r *Room) keep(list []*Command) {
	if len(r.listed)+cap(list) == cap(r.listed) {
		list = r.listed[:len(r.listed)+len(list)]
	} // otherwise it has grown out of its place
	r.listed = list
}

// input is one that a stage of a pipeline prints.
func (r *Room) input(stage *syntax.Stmt, in *input) *input {
	next := &r.inputs.take(1)[:1][0]
	next.stage, next.in = stage, in
	return next
}

// chunks hands out parts of arrays, in order.
type chunks[T any] struct {
	all  [][]T
	at   int // the array in use
	used int // of it
}

// take is an empty list of capacity n; its elements are zero.
func (c *chunks[T]) take(n int) []T {
	for ; c.at < len(c.all); c.at, c.used = c.at+1, 0 {
		if part := c.all[c.at]; c.used+n <= len(part) {
			c.used += n
			return part[c.used-n : c.used-n : c.used]
		}
	}
	size := firstChunk
	if len(c.all) > 0 {
		size = min(lastChunk, 2*len(c.all[len(c.all)-1]))
	}
	if n > size/4 {
		return make([]T, 0, n)
	}
	c.all = append(c.all, make([]T, size))
	c.used = n
	return c.all[c.at][0:0:n]
}

// clear keeps arrays of at most keep elements together.
func (c *chunks[T]) clear(keep int) {
	for i, chunk := range c.all {
		if keep -= len(chunk); keep < 0 {
			clear(c.all[i:])
			c.all = c.all[:i]
			break
		}
		if i <= c.at {
			clear(chunk)
		}
	}
	c.at, c.used = 0, 0
}
