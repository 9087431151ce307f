package shell

import "github.com/pinta-ai/pinta-agent/guard/shell/plain"

// Room is memory for the commands of one text after another: a long script has
// thousands. What it holds is void once it is cleared. The zero value is empty;
// a Room serves one analysis at a time.
type Room struct {
	commands chunks[Command]
	words    chunks[string]
	trees    plain.Memory
}

const (
	firstChunk   = 32
	lastChunk    = 2 << 10
	keptCommands = 4 << 10  // 1 MiB
	keptWords    = 32 << 10 // 0.5 MiB
)

// Clear makes all room free again and forgets what was in it.
func (r *Room) Clear() {
	r.commands.clear(keptCommands)
	r.words.clear(keptWords)
	r.trees.Forget()
}

// list is an empty list that takes n strings before it grows.
func (r *Room) list(n int) []string { return r.words.take(n) }

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
