// Package settings says where everything of the agent lives (Layout), what an
// administrator can configure (Keys, Load), and how the agent talks to the
// network (HTTPClient). It holds no state and decides nothing.
package settings

import "time"

// Clock tells the time. Packages take it as a field so that tests can turn it.
type Clock func() time.Time

// Now is the current time; a nil Clock is the system's.
func (c Clock) Now() time.Time {
	if c == nil {
		return time.Now()
	}
	return c()
}
