package shell

import (
	"context"
	"strings"
	"testing"
	"time"
)

// TestNestedSubstitutionsEnd: what is evaluated again is bounded, by the context and without it.
func TestNestedSubstitutionsEnd(t *testing.T) {
	text := strings.Repeat("echo $(", 300) + strings.Repeat(")", 300)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	for name, ctx := range map[string]context.Context{"context": ctx, "steps": context.Background()} {
		begun := time.Now()
		out := Posix(ctx, text, new(Room))
		if took := time.Since(begun); !out.Limited || took > 20*time.Second {
			t.Errorf("%s: limited %v after %v", name, out.Limited, took)
		}
	}
}

func TestEnvSplitString(t *testing.T) {
	for _, c := range Posix(context.Background(), "env --split-string='rm -rf /x'", new(Room)).Commands {
		if c.Name == "rm" {
			return
		}
	}
	t.Error("rm is not seen")
}
