package msi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"
)

// settle puts one time into the places of the file that hold the moment of the
// build: the dates of the summary information and those of the container's
// directory entries.
func settle(file string, at time.Time) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := settleSummary(data, at); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := settleDirectory(data); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, data, 0o644) //nolint:gosec // public
}

// fileTime counts 100 ns since 1601.
func fileTime(at time.Time) uint64 { return uint64(at.Unix()+11644473600) * 10_000_000 }

// summaryFormat is the format id of the summary property set.
var summaryFormat = []byte{0xe0, 0x85, 0x9f, 0xf2, 0xf9, 0x4f, 0x68, 0x10, 0xab, 0x91, 0x08, 0x00, 0x2b, 0x27, 0xb3, 0xd9}

func settleSummary(data []byte, at time.Time) error {
	i := bytes.Index(data, summaryFormat)
	if i < 28 {
		return errors.New("no summary information found")
	}
	set := i - 28 // the property set's header
	section := set + int(binary.LittleEndian.Uint32(data[i+16:]))
	count := int(binary.LittleEndian.Uint32(data[section+4:]))
	if count > 32 {
		return errors.New("the summary information is not in one piece")
	}
	const created, saved, typeTime = 12, 13, 0x40
	for n := range count {
		entry := data[section+8+8*n:]
		id, offset := binary.LittleEndian.Uint32(entry), int(binary.LittleEndian.Uint32(entry[4:]))
		value := data[section+offset:]
		if (id == created || id == saved) && binary.LittleEndian.Uint32(value) == typeTime {
			binary.LittleEndian.PutUint64(value[4:], fileTime(at))
		}
	}
	return nil
}

// settleDirectory clears the times of the compound file's directory entries.
func settleDirectory(data []byte) error {
	if len(data) < 512 || !bytes.HasPrefix(data, []byte{0xd0, 0xcf, 0x11, 0xe0}) {
		return errors.New("no compound file")
	}
	size := 1 << binary.LittleEndian.Uint16(data[30:])
	at := func(sector uint32) int { return (int(sector) + 1) * size }
	fat := func(sector uint32) uint32 {
		per := uint32(size / 4)
		block := sector / per
		if block >= 109 {
			return 0xfffffffe
		}
		where := at(binary.LittleEndian.Uint32(data[76+4*block:])) + int(sector%per)*4
		return binary.LittleEndian.Uint32(data[where:])
	}
	for sector := binary.LittleEndian.Uint32(data[48:]); sector < 0xfffffff0; sector = fat(sector) {
		for entry := at(sector); entry < at(sector)+size; entry += 128 {
			clear(data[entry+100 : entry+116])
		}
	}
	return nil
}
