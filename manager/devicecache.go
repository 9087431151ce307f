package manager

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/pinta-ai/pinta-agent/manager/store"
)

// deviceCache saves decoding a device's record again for each of its calls. The store is asked each time and decides: what
// is kept counts only while the record's bytes are the same, so no replica ever sees an old device.
type deviceCache struct {
	mu   sync.Mutex
	kept map[string]keptDevice
}

type keptDevice struct {
	raw []byte
	rec *deviceRecord
}

// cacheSize bounds the devices that are kept.
const cacheSize = 50_000

// get reads a device; the record is shared and must not be changed.
func (c *deviceCache) get(tx store.Tx, id string) (*deviceRecord, error) {
	if id == "" {
		return nil, store.ErrNotFound
	}
	raw, err := tx.Get(string(devices), id)
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", id, err)
	}
	c.mu.Lock()
	k := c.kept[id]
	c.mu.Unlock()
	if k.rec != nil && bytes.Equal(k.raw, raw) {
		return k.rec, nil
	}
	var d deviceRecord
	if err := json.Unmarshal(raw, &d); err != nil {
		return nil, fmt.Errorf("record of device %s is damaged: %w", id, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kept == nil || len(c.kept) >= cacheSize {
		c.kept = map[string]keptDevice{}
	}
	c.kept[id] = keptDevice{bytes.Clone(raw), &d}
	return &d, nil
}
