package macpkg

import (
	"encoding/binary"
	"fmt"
	"path"
	"time"
)

// maxLeaf is how many paths one leaf of the tree takes; more would need inner
// nodes, which no package of ours does.
const maxLeaf = 256

// store is a BOMStore: numbered blocks and named ones among them.
type store struct {
	blocks [][]byte // block 0 is null
	vars   []variable
}

type variable struct {
	name  string
	block uint32
}

func (s *store) add(block []byte) uint32 {
	s.blocks = append(s.blocks, block)
	return uint32(len(s.blocks)) //nolint:gosec // block 0 is not in the slice
}

func (s *store) name(name string, block uint32) { s.vars = append(s.vars, variable{name, block}) }

func u32(fields ...uint32) []byte {
	var b []byte
	for _, f := range fields {
		b = binary.BigEndian.AppendUint32(b, f)
	}
	return b
}

// leaf is a node of a tree that holds pairs of blocks.
func leaf(pairs ...uint32) []byte {
	b := binary.BigEndian.AppendUint16(nil, 1)
	b = binary.BigEndian.AppendUint16(b, uint16(len(pairs)/2)) //nolint:gosec // at most maxLeaf
	return append(append(b, u32(0, 0)...), u32(pairs...)...)
}

func (s *store) tree(node []byte, blockSize, count uint32) uint32 {
	child := s.add(node)
	return s.add(append(append([]byte("tree"), u32(1, child, blockSize, count)...), 0))
}

// bill is the Bom file of a payload.
func bill(files []File, at time.Time) ([]byte, error) {
	if len(files) > maxLeaf {
		return nil, fmt.Errorf("a Bom of %d paths: this writer makes one leaf of at most %d", len(files), maxLeaf)
	}
	s := &store{}
	s.name("BomInfo", s.add(u32(1, uint32(len(files)+1), 1, 0, 0, 0, 0)))
	ids := map[string]uint32{}
	var pairs []uint32
	for i, f := range files {
		id := uint32(i + 1)
		ids[f.Path] = id
		info := s.add(pathInfo(f, at))
		key := append(u32(ids[path.Dir(f.Path)]), append([]byte(path.Base(f.Path)), 0)...)
		if f.Path == "." {
			key = append(u32(0), '.', 0)
		}
		pairs = append(pairs, s.add(u32(id, info)), s.add(key))
	}
	s.name("Paths", s.tree(leaf(pairs...), 4096, uint32(len(files))))
	s.name("HLIndex", s.tree(leaf(), 4096, 0))
	v := s.tree(leaf(), 128, 0)
	s.name("VIndex", s.add(append(u32(1, v, 0), 0)))
	s.name("Size64", s.tree(leaf(), 128, 0))
	return s.bytes(), nil
}

// pathInfo describes one path: type, architecture, mode, owner, time, size,
// checksum, link.
func pathInfo(f File, at time.Time) []byte {
	kind, sum, link := byte(1), cksum(f.Data), []byte(nil)
	switch {
	case f.Dir:
		kind, sum = 2, 0
	case f.Link != "":
		kind, sum, link = 3, cksum([]byte(f.Link)), append([]byte(f.Link), 0)
	}
	b := []byte{kind, 1}
	b = binary.BigEndian.AppendUint16(b, 3)
	b = binary.BigEndian.AppendUint16(b, f.mode())
	size := uint32(len(f.content())) //nolint:gosec // programs are far below 4 GiB
	b = append(b, u32(0, 0, uint32(at.Unix()), size)...)
	b = append(b, 1)
	return append(append(b, u32(sum, uint32(len(link)))...), link...)
}

const headerSize = 512

func (s *store) bytes() []byte {
	var body, index, vars []byte
	index = append(index, u32(uint32(len(s.blocks)+1), 0, 0)...)
	for _, b := range s.blocks {
		index = append(index, u32(uint32(headerSize+len(body)), uint32(len(b)))...)
		body = append(body, b...)
	}
	index = append(index, u32(2, 0, 0, 0, 0)...) // free blocks: two empty ones
	vars = append(vars, u32(uint32(len(s.vars)))...)
	for _, v := range s.vars {
		vars = append(append(vars, u32(v.block)...), append([]byte{byte(len(v.name))}, v.name...)...)
	}
	varsAt := uint32(headerSize + len(body))
	indexAt := varsAt + uint32(len(vars))
	header := append([]byte("BOMStore"), u32(1, uint32(len(s.blocks)), indexAt, uint32(len(index)), varsAt, uint32(len(vars)))...)
	out := append(header, make([]byte, headerSize-len(header))...)
	return append(append(append(out, body...), vars...), index...)
}

// cksum is POSIX cksum(1).
func cksum(data []byte) uint32 {
	var crc uint32
	for _, b := range data {
		crc = crc<<8 ^ cksumTable[byte(crc>>24)^b]
	}
	for n := len(data); n > 0; n >>= 8 {
		crc = crc<<8 ^ cksumTable[byte(crc>>24)^byte(n)]
	}
	return ^crc
}

var cksumTable = func() (t [256]uint32) {
	for i := range t {
		c := uint32(i) << 24
		for range 8 {
			if c&0x80000000 != 0 {
				c = c<<1 ^ 0x04c11db7
			} else {
				c <<= 1
			}
		}
		t[i] = c
	}
	return t
}()
