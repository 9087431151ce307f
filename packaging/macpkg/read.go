package macpkg

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"crypto/sha1" //nolint:gosec // the format's checksum
	"encoding/binary"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
)

// Contents is what Read finds in a package.
type Contents struct {
	Distribution, PackageInfo []byte
	Payload, Scripts          []File
	Bill                      []Billed
}

// Billed is a path of the Bom.
type Billed struct {
	Path     string
	Mode     uint16
	Size     uint32
	Checksum uint32
	Link     string
}

// Read opens a package of Write's kind and checks every checksum on the way.
// It proves packages in tests; it is not for packages of strangers.
func Read(data []byte) (c Contents, err error) {
	members, err := readXar(data)
	if err != nil {
		return c, err
	}
	c.Distribution, c.PackageInfo = members["Distribution"], members["base.pkg/PackageInfo"]
	if c.Payload, err = readCpio(members["base.pkg/Payload"]); err != nil {
		return c, fmt.Errorf("payload: %w", err)
	}
	if c.Scripts, err = readCpio(members["base.pkg/Scripts"]); err != nil {
		return c, fmt.Errorf("scripts: %w", err)
	}
	c.Bill, err = readBom(members["base.pkg/Bom"])
	return c, err
}

// Match compares the Bom with the payload.
func (c Contents) Match() error {
	if len(c.Bill) != len(c.Payload) {
		return fmt.Errorf("the Bom lists %d paths, the payload holds %d", len(c.Bill), len(c.Payload))
	}
	for i, b := range c.Bill {
		f := c.Payload[i]
		sum := cksum(f.content())
		if f.Dir {
			sum = 0
		}
		if b.Path != f.Path || b.Mode != f.mode() || int(b.Size) != len(f.content()) || b.Checksum != sum || b.Link != f.Link {
			return fmt.Errorf("the Bom says %+v, the payload holds %s %o with %d bytes", b, f.Path, f.mode(), len(f.content()))
		}
	}
	return nil
}

type tocFile struct {
	Name string `xml:"name"`
	Data *struct {
		Length int    `xml:"length"`
		Offset int    `xml:"offset"`
		Sum    string `xml:"archived-checksum"`
	} `xml:"data"`
	Files []tocFile `xml:"file"`
}

func readXar(data []byte) (map[string][]byte, error) {
	if len(data) < 28 || string(data[:4]) != "xar!" {
		return nil, errors.New("no xar archive")
	}
	packed := int(binary.BigEndian.Uint64(data[8:])) //nolint:gosec // own packages
	if packed < 0 || 28+packed+sha1.Size > len(data) {
		return nil, errors.New("the table of contents is cut off")
	}
	heap := data[28+packed:]
	if sum := sha1.Sum(data[28 : 28+packed]); !bytes.Equal(sum[:], heap[:sha1.Size]) { //nolint:gosec // the format's checksum
		return nil, errors.New("the table of contents was changed")
	}
	z, err := zlib.NewReader(bytes.NewReader(data[28 : 28+packed]))
	if err != nil {
		return nil, err
	}
	var toc struct {
		Files []tocFile `xml:"toc>file"`
	}
	if err := xml.NewDecoder(z).Decode(&toc); err != nil {
		return nil, err
	}
	members := map[string][]byte{}
	var walk func(dir string, files []tocFile) error
	walk = func(dir string, files []tocFile) error {
		for _, f := range files {
			name := path.Join(dir, f.Name)
			if f.Data != nil {
				body := heap[f.Data.Offset : f.Data.Offset+f.Data.Length]
				if sum := sha1.Sum(body); hex.EncodeToString(sum[:]) != f.Data.Sum { //nolint:gosec // the format's checksum
					return fmt.Errorf("%s was changed", name)
				}
				members[name] = body
			}
			if err := walk(name, f.Files); err != nil {
				return err
			}
		}
		return nil
	}
	return members, walk("", toc.Files)
}

func readCpio(data []byte) (files []File, err error) {
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	for {
		var header [76]byte
		if _, err := io.ReadFull(z, header[:]); err != nil {
			return nil, err
		}
		number := func(from, to int) int64 {
			n, e := strconv.ParseInt(string(header[from:to]), 8, 64)
			err = errors.Join(err, e)
			return n
		}
		mode, nameSize, size := number(18, 24), number(59, 65), number(65, 76)
		if err != nil || string(header[:6]) != "070707" {
			return nil, errors.Join(errors.New("no cpio header"), err)
		}
		body := make([]byte, nameSize+size)
		if _, err := io.ReadFull(z, body); err != nil {
			return nil, err
		}
		name, content := string(body[:nameSize-1]), body[nameSize:]
		if name == "TRAILER!!!" {
			return files, nil
		}
		f := File{Path: path.Clean(name), Mode: uint16(mode & 0o7777)} //nolint:gosec // twelve bits
		switch mode &^ 0o7777 {
		case modeDir:
			f.Dir = true
		case modeLink:
			f.Link = string(content)
		default:
			f.Data = content
		}
		files = append(files, f)
	}
}

func readBom(data []byte) (list []Billed, err error) {
	if len(data) < headerSize || string(data[:8]) != "BOMStore" {
		return nil, errors.New("no Bom")
	}
	number := binary.BigEndian.Uint32
	index, vars := data[number(data[16:]):], data[number(data[24:]):]
	block := func(id uint32) []byte {
		entry := index[4+8*id:]
		return data[number(entry) : number(entry)+number(entry[4:])]
	}
	named := map[string]uint32{}
	for n, at := number(vars), vars[4:]; n > 0; n-- {
		size := int(at[4])
		named[string(at[5:5+size])] = number(at)
		at = at[5+size:]
	}
	tree := block(named["Paths"])
	leaf := block(number(tree[8:]))
	paths := map[uint32]string{}
	for i := range int(binary.BigEndian.Uint16(leaf[2:])) {
		pair := leaf[12+8*i:]
		info, key := block(number(pair)), block(number(pair[4:]))
		more := block(number(info[4:]))
		name := path.Join(paths[number(key)], string(key[4:len(key)-1]))
		paths[number(info)] = name
		b := Billed{Path: name, Mode: binary.BigEndian.Uint16(more[4:]), Size: number(more[18:]), Checksum: number(more[23:])}
		if n := number(more[27:]); n > 0 {
			b.Link = string(more[31 : 31+n-1])
		}
		list = append(list, b)
	}
	return list, nil
}
