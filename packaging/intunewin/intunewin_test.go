package intunewin

import (
	"bytes"
	"testing"
	"time"
)

func TestWriteAndRead(t *testing.T) {
	at := time.Unix(1767225600, 0)
	for _, size := range []int{0, 1, 15, 16, 17, 100_000} {
		data := bytes.Repeat([]byte("x"), size)
		pack, err := Write("setup.msi", data, at)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Write("setup.msi", data, at); err != nil || !bytes.Equal(pack, again) {
			t.Errorf("%d bytes: two runs differ (%v)", size, err)
		}
		name, got, err := Read(pack)
		if err != nil || name != "setup.msi" || !bytes.Equal(got, data) {
			t.Errorf("%d bytes: read %s, %d bytes, %v", size, name, len(got), err)
		}
	}
}

func TestChangedContentIsNoticed(t *testing.T) {
	pack, err := Write("setup.msi", []byte("content"), time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	for i := range pack {
		changed := bytes.Clone(pack)
		changed[i] ^= 0x40
		if _, data, err := Read(changed); err == nil && !bytes.Equal(data, []byte("content")) {
			t.Fatalf("a change at %d gave other content", i)
		}
	}
}
