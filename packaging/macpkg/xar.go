package macpkg

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // the format's checksum
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// member is a file of a xar archive, or a folder of members.
type member struct {
	name    string
	data    []byte
	members []member
}

// xar writes the archive: header, packed table of contents, heap. Data is
// stored as it is; the heap starts with the checksum of the packed table.
func xar(at time.Time, members ...member) ([]byte, error) {
	heap := make([]byte, sha1.Size)
	id := 0
	var files strings.Builder
	var list func(list []member)
	list = func(all []member) {
		for _, m := range all {
			id++
			fmt.Fprintf(&files, `<file id="%d">`, id)
			if m.members != nil {
				fmt.Fprintf(&files, "<name>%s</name><type>directory</type>", m.name)
				list(m.members)
			} else {
				sum := sha1.Sum(m.data) //nolint:gosec // the format's checksum
				text := hex.EncodeToString(sum[:])
				fmt.Fprintf(&files, `<data><length>%d</length><offset>%d</offset><size>%d</size><encoding style="application/octet-stream"/>`+
					`<extracted-checksum style="sha1">%s</extracted-checksum><archived-checksum style="sha1">%s</archived-checksum></data>`+
					`<name>%s</name><type>file</type>`, len(m.data), len(heap), len(m.data), text, text, m.name)
				heap = append(heap, m.data...)
			}
			files.WriteString("</file>")
		}
	}
	list(members)
	toc := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<xar><toc><checksum style="sha1"><offset>0</offset><size>%d</size></checksum><creation-time>%s</creation-time>%s</toc></xar>`,
		sha1.Size, at.UTC().Format("2006-01-02T15:04:05"), files.String())
	var packed bytes.Buffer
	z, err := zlib.NewWriterLevel(&packed, zlib.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write([]byte(toc)); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	sum := sha1.Sum(packed.Bytes()) //nolint:gosec // the format's checksum
	copy(heap, sum[:])
	out := []byte("xar!")
	out = binary.BigEndian.AppendUint16(out, 28)
	out = binary.BigEndian.AppendUint16(out, 1)
	out = binary.BigEndian.AppendUint64(out, uint64(packed.Len())) //nolint:gosec // a length
	out = binary.BigEndian.AppendUint64(out, uint64(len(toc)))
	out = binary.BigEndian.AppendUint32(out, 1) // SHA-1
	return append(append(out, packed.Bytes()...), heap...), nil
}
