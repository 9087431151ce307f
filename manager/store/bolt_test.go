package store_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pinta-ai/pinta-agent/manager/store"
	"github.com/pinta-ai/pinta-agent/manager/store/storetest"
)

func TestBolt(t *testing.T) {
	storetest.Run(t, storetest.Backend{
		Open: func(t *testing.T, place string) store.Store {
			s, err := store.OpenBolt(filepath.Join(place, "db"))
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	})
}

func TestSecondProcessIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	s, err := store.OpenBolt(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := store.OpenBolt(path); err == nil {
		t.Fatal("opened twice")
	}
}

// A process that is killed in the middle of its writes leaves every update that had returned, each as a whole.
func TestKilled(t *testing.T) {
	const env = "PINTA_TEST_STORE"
	if path := os.Getenv(env); path != "" {
		writeForever(path)
	}
	path := filepath.Join(t.TempDir(), "db")
	last := -1
	for round := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), env+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for range 20 + 13*round {
			if _, err := fmt.Fscanln(out, &last); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		check(t, path, last)
	}
}

var counts = store.Table[int]("n")

func writeForever(path string) {
	s, err := store.OpenBolt(path)
	if err != nil {
		panic(err)
	}
	n := 0
	_ = s.View(context.Background(), "a", func(tx store.Tx) error { n, _ = counts.Get(tx, "one"); return nil })
	for n++; ; n++ {
		err := s.Update(context.Background(), "a", func(tx store.Tx) error {
			if err := counts.Put(tx, "one", n); err != nil {
				return err
			}
			return counts.Put(tx, "two", n)
		})
		if err != nil {
			panic(err)
		}
		fmt.Println(n)
	}
}

func check(t *testing.T, path string, last int) {
	t.Helper()
	s, err := store.OpenBolt(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.View(context.Background(), "a", func(tx store.Tx) error {
		one, err := counts.Get(tx, "one")
		if err != nil {
			return err
		}
		two, err := counts.Get(tx, "two")
		if one != two || one < last {
			t.Errorf("after the kill: one=%d two=%d, told %d", one, two, last)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
