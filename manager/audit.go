package manager

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/pinta-ai/pinta-agent/internal/api"
	"github.com/pinta-ai/pinta-agent/manager/store"
)

const counterAudit = "audit"

// audit appends an entry in the transaction of what it tells of: neither is there without the other. Details name things,
// never what they hold.
func (m *Manager) audit(tx store.Tx, actor, action, subject, detail string) error {
	seq, err := add(tx, counterAudit, 1)
	if err != nil {
		return err
	}
	e := api.AuditEntry{Seq: seq, At: m.opt.Now().UTC(), Actor: actor, Action: action, Subject: subject, Detail: detail}
	if seq > 1 {
		before, err := audits.Get(tx, ordinal(seq-1))
		if err != nil {
			return err
		}
		e.Prev = before.Hash
	}
	e.Hash = auditHash(e)
	return audits.Put(tx, ordinal(seq), e)
}

// auditHash is the SHA-256 of an entry as JSON without its hash; with Prev in it, each entry seals all before it.
func auditHash(e api.AuditEntry) string {
	e.Hash = ""
	text, err := json.Marshal(e)
	if err != nil {
		return "" // a struct of strings and a time always encodes
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// AuditHolds tells whether entries follow one another without a change or a gap.
func AuditHolds(list []api.AuditEntry) bool {
	for i, e := range list {
		switch {
		case e.Hash != auditHash(e), e.Seq == 1 && e.Prev != "":
			return false
		case i > 0 && (e.Prev != list[i-1].Hash || e.Seq != list[i-1].Seq+1):
			return false
		}
	}
	return true
}
