// Command nfpm packs a deb or an rpm from a description with variables. It is
// a module of its own, so that nothing of the packager gets near the product's
// dependencies; packaging/cmd/pack runs it.
//
//	nfpm CONFIG FORMAT TARGET   with the variables in the environment
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: nfpm CONFIG deb|rpm TARGET")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "nfpm:", err)
		os.Exit(1)
	}
}

func pack(description, format, target string) error {
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	text, err := os.ReadFile(description)
	if err != nil {
		return err
	}
	config, err := nfpm.Parse(strings.NewReader(os.Expand(string(text), os.Getenv)))
	if err != nil {
		return fmt.Errorf("%s: %w", description, err)
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info.MTime = time.Unix(epoch, 0).UTC()
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	f, err := os.Create(target)
	if err != nil {
		return err
	}
	if err := packager.Package(info, f); err != nil {
		return err
	}
	return f.Close()
}
