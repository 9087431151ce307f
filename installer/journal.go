package installer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"time"
)

// journal is what can't be read off the machine again: which image we put
// there, where the hook was registered before, and what stood in a home before
// the first install. It is written before what it describes, so that after a
// crash it claims too much rather than too little; losing it costs tidiness at
// uninstall only.
type journal struct {
	Schema int `json:"schema"`
	// SHA256 is the registered image's, Version the agent's that put it there.
	SHA256  string `json:"sha256,omitempty"`
	Version string `json:"version,omitempty"`
	// Hook is the registered path, Moves those that it had before.
	Hook  string `json:"hook,omitempty"`
	Moves []move `json:"moves,omitempty"`
	// Before says, path by path, what stood there: "absent" or an octal mode.
	Before map[string]map[string]string `json:"before,omitempty"` // by user, "" for the machine
}

// move is a plugin root that running sessions may still know.
type move struct {
	From string    `json:"from"`
	At   time.Time `json:"at"`
}

const (
	journalName = "installer.json"
	maxJournal  = 4 << 20
	maxMoves    = 16
)

// readJournal never fails: a damaged journal is as none.
func readJournal(sys System, dir string) journal {
	j := journal{Schema: 1, Before: map[string]map[string]string{}}
	data, err := sys.ReadFile(filepath.Join(dir, journalName), maxJournal)
	if err != nil {
		return j
	}
	var read journal
	if json.Unmarshal(data, &read) != nil || read.Schema != 1 {
		return j
	}
	if read.Before == nil {
		read.Before = j.Before
	}
	return read
}

func (j journal) encode() []byte {
	b, _ := json.MarshalIndent(j, "", "  ") // strings, maps and times always encode
	return append(b, '\n')
}

// note fills in what stands at the item's path and its missing folders, where
// that isn't noted yet.
func note(sys System, it Item, before map[string]string) {
	look := func(path string) (missing bool) {
		i, err := sys.Lstat(path)
		was := octal(i.Perm)
		if errors.Is(err, fs.ErrNotExist) {
			was, missing = "absent", true
		} else if err != nil {
			return false
		} else if path == it.Path && i.Type != 0 {
			was = octal(it.Perm) // the mode of a link or a directory is none for a file
		}
		if _, ok := before[path]; !ok {
			before[path] = was
		}
		return missing
	}
	if it.Gone || it.Path == "" {
		return
	}
	for p := it.Path; look(p) && p != filepath.Dir(p); p = filepath.Dir(p) {
	}
	if it.Object == HookFile {
		look(filepath.Join(filepath.Dir(filepath.Dir(it.Path)), dataDirName))
	}
}
