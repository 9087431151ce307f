// Package api is the contract between agent and Manager in Go: the types, client and routes generated from openapi.yaml,
// problem documents, the signed documents (JWS) and the JWT of a device. It keeps no state, opens no connection of its own
// and decides nothing: what a token or a policy is worth is the Manager's, what a config means is the agent's.
package api

import (
	_ "embed"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Prefix is the path below which all operations live.
const Prefix = "/api/v1"

// Schema is the schema number of the signed documents that this code knows.
const Schema = 1

// OpenAPI is the document that everything here follows.
//
//go:embed openapi.yaml
var OpenAPI []byte

// Operation is what the document says about one operation.
type Operation struct {
	ID, Surface, Method, Path string
	Role                      Role   // least role, on the admin surface
	Scope                     string // what a key bound to groups meets: filter, hide, own, deny, any
	MaxBody                   int64  // bytes; 0: takes no body
	ContentType               string // of the request body
}

// Authenticate finds out who calls. It answers a refused request itself and returns false then; it reads and bounds the
// body, which it leaves in r for the operation.
type Authenticate[P any] func(w http.ResponseWriter, r *http.Request, op Operation) (P, bool)

type place uint8

const (
	inPath place = iota
	inQuery
	inHeader
)

// bounds are the limits that the document sets to a parameter; zero is none.
type bounds struct {
	required       bool
	minLen, maxLen int // characters
	min, max       int64
	enum           []string
}

// binder takes parameters out of a request and keeps the first fault.
type binder struct {
	r     *http.Request
	query url.Values
	err   error
}

// value returns the one value of a parameter, and false if there is none to take.
func (b *binder) value(in place, name string, lim bounds) (string, bool) {
	var values []string
	switch in {
	case inPath:
		values = []string{b.r.PathValue(name)}
	case inQuery:
		values = b.query[name]
	case inHeader:
		values = b.r.Header.Values(name)
	}
	switch {
	case len(values) > 1:
		b.fail(name, "is given more than once")
	case len(values) == 0 || values[0] == "":
		if lim.required {
			b.fail(name, "is missing")
		}
	default:
		return values[0], true
	}
	return "", false
}

// fail keeps the first fault. It names the parameter and never repeats its value.
func (b *binder) fail(name, what string) {
	if b.err == nil {
		b.err = fmt.Errorf("parameter %s %s", name, what)
	}
}

func bindInt[T ~int | ~int64](b *binder, in place, name string, dst *T, lim bounds) {
	v, ok := b.value(in, name, lim)
	if !ok {
		return
	}
	n, err := strconv.ParseInt(v, 10, strconv.IntSize)
	if err != nil || n < lim.min || lim.max > 0 && n > lim.max {
		b.fail(name, "is no number in its range")
		return
	}
	*dst = T(n)
}

func bindString[T ~string](b *binder, in place, name string, dst *T, lim bounds) {
	v, ok := b.value(in, name, lim)
	if !ok {
		return
	}
	n := utf8.RuneCountInString(v)
	if !utf8.ValidString(v) || n < lim.minLen || lim.maxLen > 0 && n > lim.maxLen || lim.enum != nil && !slices.Contains(lim.enum, v) {
		b.fail(name, "has a value that the API document doesn't allow")
		return
	}
	*dst = T(v)
}
