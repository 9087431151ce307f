// Package enroll gives this machine its identity at a Manager and keeps it: how
// a token is delivered, the device key, enrolment and re-enrolment, key
// rotation, retirement, and the signature under every device call. What the
// Manager then orders (config, actions) is sync/device's.
//
// One record holds everything (record.go, the state machine), one transaction
// changes it (store.go), and the network is at the edge (enroll.go, client.go).
// Manager trouble of any kind changes nothing in it but the attempt's state:
// only a signed retirement or a newer identity ends an identity (manager.md 2).
package enroll

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/internal/safefile"
	"github.com/pinta-ai/pinta-agent/internal/settings"
)

// ErrNotEnrolled means that there is no identity (yet, or any more).
var ErrNotEnrolled = errors.New("this machine is not enrolled: run `pinta-agent enroll` with a token")

const recordName = "enrolment"

// State is the identity on disk and what is known of it in this process. Its
// methods are safe for concurrent use, also by several processes.
type State struct {
	store store
	// Clock may be set before use; nil is the system's.
	Clock settings.Clock

	offset   atomic.Int64 // Manager's clock minus ours, in ns; for signed calls only
	rotating sync.Mutex
}

// madeFile lists the folders above the state's that Open made, for Remove.
const madeFile = "made.json"

// Open opens the state in dir, which is made 0700 if it is absent. A state file
// is made by the first change only.
func Open(dir string) (*State, error) {
	made := missing(filepath.Dir(dir))
	if err := safefile.MkdirAll(dir, 0o700); err != nil {
		return nil, fail(CodeLocal, "make the state folder %s: %w; give this account write access to the folders above it, or run as root for the whole machine", dir, err)
	}
	if len(made) > 0 {
		list, _ := json.Marshal(made) // strings always encode
		if err := safefile.WriteFile(filepath.Join(dir, madeFile), list, safefile.Private); err != nil {
			return nil, fail(CodeLocal, "state folder: %w", err)
		}
	}
	s := &State{store: store{dir: dir}}
	d, err := safefile.OpenDir(dir)
	if err != nil {
		return nil, fail(CodeLocal, "state folder: %w", err)
	}
	defer d.Close()
	if err := d.SetAttr(stateFile, safefile.Private); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fail(CodeLocal, "state file: %w", err)
	}
	return s, nil
}

// missing lists the folders that aren't there, of dir and those above, the
// innermost first.
func missing(dir string) (list []string) {
	for {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return list
		}
		list = append(list, dir)
		dir = filepath.Dir(dir)
	}
}

// Remove removes the state in dir, which only this account may be able to write
// in, and the folders above it that Open made and that are empty by now.
func Remove(dir string) error {
	if err := safefile.CheckDir(dir); err != nil {
		return fmt.Errorf("the state folder is left alone: %w", err)
	}
	var made []string
	if list, err := safefile.ReadFile(filepath.Join(dir, madeFile), 64<<10); err == nil {
		_ = json.Unmarshal(list, &made) // a damaged list costs tidiness only
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for _, above := range made {
		if rel, err := filepath.Rel(above, dir); err != nil || !filepath.IsLocal(rel) || os.Remove(above) != nil {
			break
		}
	}
	return nil
}

func (s *State) load() (r record, err error) {
	err = s.store.view(func(t tx) error { return t.get(recordName, &r) })
	return r, err
}

// change is the one way to change the record: fn sees it as it is on disk, and
// what it makes of it is there entirely or, with an error or a kill, not at all.
func (s *State) change(fn func(*record) error) error {
	return s.store.update(func(t tx) error {
		var r record
		if err := t.get(recordName, &r); err != nil {
			return err
		}
		r.Before = r.Before || t.lost
		if err := fn(&r); err != nil {
			return err
		}
		return t.put(recordName, &r)
	})
}

// Identity is who this machine is. Errors: ErrNotEnrolled, ErrDamaged, or that
// the state can't be read.
func (s *State) Identity() (Identity, error) {
	r, err := s.load()
	if err != nil {
		return Identity{}, err
	}
	if r.Identity == nil {
		return Identity{}, ErrNotEnrolled
	}
	return *r.Identity, nil
}

// Overview is what status shows of enrolment. It holds no secret.
type Overview struct {
	Identity *Identity       `json:"identity,omitempty"`
	Attempt  Attempt         `json:"attempt,omitzero"`
	Rotating bool            `json:"rotating,omitempty"`
	Reenrol  api.EnrolReason `json:"reenrol,omitempty"`
	Retired  *Retirement     `json:"retired,omitempty"`
}

// Overview returns the whole state for people.
func (s *State) Overview() (Overview, error) {
	r, err := s.load()
	return Overview{r.Identity, r.Attempt, r.Candidate != nil, r.Reenrol, r.Retired}, err
}

// Load decodes a document that another package keeps beside the identity, under
// a name of its own; one that is absent leaves v as it is.
func (s *State) Load(name string, v any) error {
	return s.store.view(func(t tx) error { return t.get(name, v) })
}

// Update changes such a document in one transaction: fn sees v as it is on disk
// and changes it; with an error of fn nothing is written.
func (s *State) Update(name string, v any, fn func() error) error {
	return s.store.update(func(t tx) error {
		if err := t.get(name, v); err != nil {
			return err
		}
		if err := fn(); err != nil {
			return err
		}
		return t.put(name, v)
	})
}

// AskReenrol notes that the Manager wants this device to enrol anew. Nothing is
// dropped: the identity holds until a new one is there.
func (s *State) AskReenrol(reason api.EnrolReason) error {
	return s.change(func(r *record) error {
		if r.Identity == nil || r.Reenrol == reason {
			return errUnchanged
		}
		r.Reenrol = reason
		return nil
	})
}

// Retire drops the identity if statement is a retirement of this very device,
// signed by one of the Manager's keys. Nothing else that a server says does.
func (s *State) Retire(statement string) error {
	return s.change(func(r *record) error {
		if r.Identity == nil {
			return ErrNotEnrolled
		}
		keys, err := r.Identity.Keys()
		if err != nil {
			return err
		}
		var doc api.Retirement
		if err := api.Verify(statement, &doc, keys); err != nil {
			return fmt.Errorf("retirement refused: %w", err)
		}
		if doc.DeviceID != r.Identity.DeviceID || doc.Aud != r.Identity.Audience {
			return errors.New("retirement refused: it is another device's")
		}
		r.ended(Retirement{DeviceID: doc.DeviceID, At: s.Clock.Now(), By: "manager", Statement: statement})
		return nil
	})
}

// Unenroll drops the identity because somebody with the right to do so says so:
// an administrator on this machine, or a signed action that the caller checked.
func (s *State) Unenroll(by string) error {
	return s.change(func(r *record) error {
		if r.Identity == nil {
			return ErrNotEnrolled
		}
		r.ended(Retirement{DeviceID: r.Identity.DeviceID, At: s.Clock.Now(), By: by})
		return nil
	})
}

// SetSigningKeys takes a statement of the root key if it is newer than what is
// there, and reports whether it was. Errors: api.ErrSignature and the like.
func (s *State) SetSigningKeys(statement string) (taken bool, err error) {
	err = s.change(func(r *record) error {
		if r.Identity == nil {
			return ErrNotEnrolled
		}
		var doc api.KeyStatement
		if err := api.VerifyRoot(statement, &doc, r.Identity.Root); err != nil {
			return fmt.Errorf("signing keys refused: %w", err)
		}
		if doc.Aud != r.Identity.Audience {
			return fmt.Errorf("signing keys refused: %w", api.ErrAudience)
		}
		if _, err := api.ParseKeys(doc.Keys); err != nil || len(doc.Keys) == 0 {
			return fmt.Errorf("signing keys refused: %w", api.ErrMalformed)
		}
		if doc.Version <= r.Identity.KeysVersion {
			return errUnchanged
		}
		taken = true
		r.Identity.SigningKeys, r.Identity.KeysVersion = doc.Keys, doc.Version
		return nil
	})
	return taken, err
}

// Move takes a statement that this device was moved to another group if it is
// newer than the last one, and reports whether it was. Errors:
// api.ErrSignature and the like.
func (s *State) Move(statement string) (moved bool, err error) {
	err = s.change(func(r *record) error {
		if r.Identity == nil {
			return ErrNotEnrolled
		}
		keys, err := r.Identity.Keys()
		if err != nil {
			return err
		}
		var doc api.GroupMove
		if err := api.Verify(statement, &doc, keys); err != nil {
			return fmt.Errorf("move refused: %w", err)
		}
		if doc.DeviceID != r.Identity.DeviceID || doc.Aud != r.Identity.Audience || doc.Group == "" {
			return errors.New("move refused: it is another device's")
		}
		if !doc.IssuedAt.After(r.Identity.MovedAt) {
			return errUnchanged
		}
		moved = true
		r.Identity.Group, r.Identity.GroupVersion, r.Identity.MovedAt = doc.Group, doc.Version, doc.IssuedAt
		return nil
	})
	return moved, err
}

// SignRequest makes the JWT of one device call: method, path with query as it
// is sent (api.Prefix included) and body. It is good for one try.
func (s *State) SignRequest(method, path string, body []byte) (jwt string, err error) {
	r, err := s.load()
	if err != nil {
		return "", err
	}
	if r.Identity == nil {
		return "", ErrNotEnrolled
	}
	request, err := http.NewRequest(method, r.Identity.Manager+path, nil)
	if err != nil {
		return "", fmt.Errorf("sign %s %s: %w", method, path, err)
	}
	key, err := openKey(r.Key)
	if err != nil {
		return "", err
	}
	if err := s.authorize(request, body, *r.Identity, key); err != nil {
		return "", err
	}
	return strings.TrimPrefix(request.Header.Get("Authorization"), "Bearer "), nil
}

func (s *State) authorize(request *http.Request, body []byte, id Identity, key ed25519.PrivateKey) error {
	caller := api.Caller{DeviceID: id.DeviceID, Audience: id.Audience, Boot: bootID(filepath.Join(s.store.dir, stateFile)), Key: key}
	return caller.Authorize(request, body, s.managerTime())
}

// managerTime is the Manager's clock as far as it told us. Nothing but the
// times in signed calls is taken from it.
func (s *State) managerTime() time.Time {
	return s.Clock.Now().Add(time.Duration(s.offset.Load()))
}

// correctClock takes the Manager's time out of a clock_skew problem; false if it
// tells none.
func (s *State) correctClock(p *api.Problem) bool {
	if p.Code != api.ProblemCodeClockSkew || p.ServerTime.IsZero() {
		return false
	}
	s.offset.Store(int64(p.ServerTime.Sub(s.Clock.Now())))
	return true
}
