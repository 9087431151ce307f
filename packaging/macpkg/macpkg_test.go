package macpkg

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sample() Package {
	return Package{Identifier: "com.example.x", Version: "1.2.3", Title: `A & "B"`, MinOS: "12.0", Time: time.Unix(1767225600, 0),
		Files: []File{{Path: "usr/local/bin/x", Mode: 0o755, Link: "/opt/x"}, {Path: "opt/x", Mode: 0o755, Data: []byte("program")},
			{Path: "Applications/X y.app/Contents/Info.plist", Mode: 0o644, Data: []byte("<plist/>")}},
		Scripts: []File{{Path: "postinstall", Mode: 0o755, Data: []byte("#!/bin/sh\n")}},
		Bundles: []Bundle{{"Applications/X y.app", "com.example.x", "1.2.3"}}}
}

func TestWriteAndRead(t *testing.T) {
	data, err := Write(sample())
	if err != nil {
		t.Fatal(err)
	}
	again, err := Write(sample())
	if err != nil || !bytes.Equal(data, again) {
		t.Fatalf("two runs differ (%v)", err)
	}
	c, err := Read(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Match(); err != nil {
		t.Error(err)
	}
	if want := complete(sample().Files); !reflect.DeepEqual(c.Payload, want) {
		t.Errorf("payload %+v\nwant %+v", c.Payload, want)
	}
	for _, want := range []string{`identifier="com.example.x"`, `numberOfFiles="11"`, `<postinstall file="./postinstall"/>`} {
		if !strings.Contains(string(c.PackageInfo), want) {
			t.Errorf("PackageInfo lacks %s:\n%s", want, c.PackageInfo)
		}
	}
	if !strings.Contains(string(c.Distribution), "A &amp; &#34;B&#34;") {
		t.Errorf("the title is not escaped:\n%s", c.Distribution)
	}
}

func TestChangedPackageIsNoticed(t *testing.T) {
	data, err := Write(sample())
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-5] ^= 1
	if _, err := Read(data); err == nil {
		t.Error("a flipped bit in the heap was not noticed")
	}
}

// Values of cksum(1).
func TestCksum(t *testing.T) {
	for text, want := range map[string]uint32{"": 4294967295, "123456789": 930766865} {
		if got := cksum([]byte(text)); got != want {
			t.Errorf("cksum(%q) = %d, want %d", text, got, want)
		}
	}
}
