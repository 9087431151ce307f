package manager

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"
	"go.yaml.in/yaml/v3"

	"github.com/pinta-ai/pinta-agent/internal/api"
)

// operation is what openapi.yaml says, read from its text, not from what was generated of it.
type operation struct {
	id, method, path, tag, role, scope, contentType string
	statuses                                        []int
	problems                                        []string
}

// documented reads all operations.
func documented(t *testing.T) (ops []operation) {
	t.Helper()
	var doc struct {
		Tags []struct {
			Name     string
			Problems []string `yaml:"x-problems"`
		}
		Paths map[string]map[string]yaml.Node
	}
	if err := yaml.Unmarshal(api.OpenAPI, &doc); err != nil {
		t.Fatal(err)
	}
	surface := map[string][]string{}
	for _, tag := range doc.Tags {
		surface[tag.Name] = tag.Problems
	}
	for path, item := range doc.Paths {
		for method, node := range item {
			if method == "parameters" {
				continue
			}
			var o struct {
				OperationID string `yaml:"operationId"`
				Tags        []string
				Role        string                           `yaml:"x-role"`
				Scope       string                           `yaml:"x-scope"`
				Problems    []string                         `yaml:"x-problems"`
				RequestBody struct{ Content map[string]any } `yaml:"requestBody"`
				Responses   map[string]any
			}
			if err := node.Decode(&o); err != nil {
				t.Fatal(err)
			}
			op := operation{id: o.OperationID, method: strings.ToUpper(method), path: path, tag: o.Tags[0], role: o.Role, scope: o.Scope, problems: append(o.Problems, surface[o.Tags[0]]...)}
			for ct := range o.RequestBody.Content {
				op.contentType = ct
			}
			for s := range o.Responses {
				if n, err := strconv.Atoi(s); err == nil {
					op.statuses = append(op.statuses, n)
				}
			}
			ops = append(ops, op)
		}
	}
	slices.SortFunc(ops, func(a, b operation) int { return strings.Compare(a.id, b.id) })
	return ops
}

// success is the documented status of a call that works.
func (o operation) success() int { return slices.Min(o.statuses) }

// example is a call that works for whoever may make it: path and body.
func (b *bed) example(o operation, d *dev) (path string, body []byte) {
	b.Helper()
	text := func(v any) []byte {
		raw, err := json.Marshal(v)
		b.must(err)
		return raw
	}
	id := d.id
	files := []api.PolicyFile{{Name: "p.yaml", Content: denyRm}}
	switch o.id {
	case "enroll":
		token, key := b.token(), newTestKey()
		signed, err := api.SignEnrol(b.request(token, key), token.key, key)
		b.must(err)
		body = signed
	case "reportDevice":
		body = text(api.Report{State: api.ConfigStateApplied})
	case "rotateDeviceKey":
		k := newTestKey()
		doc, err := api.Sign(&api.KeyRotation{Schema: 1, DeviceID: d.id, PublicKey: api.EncodeKey(public(k)), Iat: b.now().Unix(), Aud: d.audience}, k)
		b.must(err)
		body = []byte(doc)
	case "exportTraces":
		body = []byte{0x0a, 0x00}
	case "appeal":
		body = text(api.AppealRequest{EvaluationID: ulid.Make().String(), Reason: "x"})
	case "createToken":
		body = text(api.TokenCreate{ID: ulid.Make().String(), PublicKey: api.EncodeKey(public(newTestKey()))})
	case "revokeToken":
		id = b.token().id
	case "createGroup":
		body = text(api.GroupCreate{Name: strings.ToLower(ulid.Make().String())})
	case "moveDevice":
		body = text(api.DeviceMove{Group: DefaultGroup})
	case "retireDevice":
		id = b.device().id
	case "orderAction":
		id = b.device().id
		body = text(api.ActionOrder{Kind: api.ActionKindResync})
	case "publishPolicy":
		body = text(api.PolicyPublish{Files: files})
	case "validatePolicy":
		body = text(api.PolicySource{Files: files})
	case "testPolicy":
		body = text(api.PolicyTest{Files: files})
	case "createAPIKey":
		body = text(api.APIKeyCreate{Name: "x", Role: api.RoleViewer})
	case "revokeAPIKey":
		k, err := api.JSON[api.APIKey](b.admin(api.RoleAdmin).CreateAPIKey(b.Context(), api.APIKeyCreate{Name: "x", Role: api.RoleViewer}))
		b.must(err)
		id = k.ID
	case "resolveAppeal":
		a, err := api.JSON[api.Appeal](d.client().Appeal(b.Context(), api.AppealRequest{EvaluationID: ulid.Make().String(), Reason: "x"}))
		b.must(err)
		id = a.ID
		body = text(api.AppealResolution{State: api.AppealStateAccepted})
	}
	version := "1"
	if o.id == "overrideVersion" {
		v, err := b.publish(denyRm, "")
		b.must(err)
		version = strconv.FormatInt(v.Version, 10)
	}
	return strings.NewReplacer("{id}", id, "{version}", version).Replace(o.path), body
}

// credential authorizes a request whose body is there.
type credential struct {
	name, kind string // kind: none, garbage, device, a role, scoped
	sign       func(r *http.Request, body []byte)
}

func (b *bed) credentials(d *dev) (list []credential) {
	add := func(name, kind string, sign func(*http.Request, []byte)) {
		list = append(list, credential{name, kind, sign})
	}
	bearer := func(c *api.Client) func(*http.Request, []byte) {
		return func(r *http.Request, body []byte) { b.must(c.Authorize(r, body)) }
	}
	add("nobody", "none", func(*http.Request, []byte) {})
	add("garbage", "garbage", func(r *http.Request, _ []byte) { r.Header.Set("Authorization", "Bearer garbage") })
	add("basic", "garbage", func(r *http.Request, _ []byte) { r.SetBasicAuth("admin", "admin") })
	add("device", "device", bearer(d.client()))
	b.must(api.Done(b.admin(api.RoleAdmin).CreateGroup(b.Context(), api.GroupCreate{Name: "other"})))
	for _, role := range []api.Role{api.RoleViewer, api.RoleOperator, api.RoleAuthor, api.RoleAdmin} {
		add(string(role), string(role), bearer(b.admin(role)))
	}
	add("admin of another group", "scoped", bearer(b.admin(api.RoleAdmin, "other")))
	return list
}

// want is the documented status of a call with a credential; 0 is any success.
func want(o operation, c credential) (status int, code api.ProblemCode) {
	switch {
	case o.tag == "public" || o.tag == "enrol":
		return o.success(), ""
	case o.tag == "device":
		if c.kind == "device" {
			return o.success(), ""
		}
		return http.StatusUnauthorized, api.ProblemCodeUnauthenticated
	case c.kind == "none" || c.kind == "garbage" || c.kind == "device":
		return http.StatusUnauthorized, api.ProblemCodeUnauthenticated
	case c.kind == "scoped":
		switch o.scope {
		case "hide":
			return http.StatusNotFound, api.ProblemCodeNotFound
		case "own", "deny":
			return http.StatusForbidden, api.ProblemCodeForbidden
		}
		return o.success(), ""
	}
	// The roles as manager.md 6 has them, spelled out apart from the code under test.
	may := map[string]string{"viewer": "viewer operator author admin", "operator": "operator admin", "author": "author admin", "admin": "admin"}
	if !slices.Contains(strings.Fields(may[o.role]), c.kind) {
		return http.StatusForbidden, api.ProblemCodeForbidden
	}
	return o.success(), ""
}

// TestMatrix walks route × role × scope: each answers what the document says, and what is refused changes nothing.
func TestMatrix(t *testing.T) {
	b := newBed(t)
	d := b.device()
	_, err := d.report()
	b.must(err)
	creds := b.credentials(d)
	ops := documented(t)
	if len(ops) < 30 {
		t.Fatalf("%d operations", len(ops))
	}
	for _, o := range ops {
		if o.tag == "admin" && (o.role == "" || o.scope == "") {
			t.Errorf("%s has no role or scope", o.id)
		}
		for _, c := range creds {
			status, code := want(o, c)
			path, body := b.example(o, d)
			r, err := http.NewRequest(o.method, b.srv.URL+api.Prefix+path, bytes.NewReader(body))
			b.must(err)
			if body == nil {
				r.Body, r.ContentLength = http.NoBody, 0
			}
			if o.contentType != "" {
				r.Header.Set("Content-Type", o.contentType)
			}
			if o.id == "exportTraces" {
				r.Header.Set("Pinta-Batch-Id", ulid.Make().String())
			}
			c.sign(r, body)
			before := b.dump()
			res, err := b.srv.Client().Do(r)
			b.must(err)
			answer, err := io.ReadAll(res.Body)
			b.must(err)
			res.Body.Close()
			if res.StatusCode != status {
				t.Errorf("%s as %s: %d %s, want %d", o.id, c.name, res.StatusCode, answer, status)
				continue
			}
			if !slices.Contains(o.statuses, status) && status < 400 {
				t.Errorf("%s: status %d isn't documented", o.id, status)
			}
			if code == "" {
				continue
			}
			if status != http.StatusNotFound && !slices.Contains(o.statuses, status) {
				t.Errorf("%s: status %d isn't documented", o.id, status)
			}
			var p api.Problem
			b.must(json.Unmarshal(answer, &p))
			if p.Code != code || p.Status != status || res.Header.Get("Content-Type") != "application/problem+json" {
				t.Errorf("%s as %s: problem %+v", o.id, c.name, p)
			}
			if !slices.Contains(o.problems, string(code)) {
				t.Errorf("%s: problem %s isn't documented", o.id, code)
			}
			if b.dump() != before {
				t.Errorf("%s as %s: refused, but something changed", o.id, c.name)
			}
		}
	}
}

// TestAdminBodies: every operation with a body refuses the empty, the oversized, the wrongly typed and the malformed one, in
// this order of checks and without a change; one without a body takes none.
func TestAdminBodies(t *testing.T) {
	b := newBed(t)
	d := b.device()
	_, err := d.report()
	b.must(err)
	admin := b.admin(api.RoleAdmin)
	limits := map[string]int64{}
	for _, o := range slices.Concat(api.AdminOperations, api.DeviceOperations, api.EnrolOperations) {
		limits[strings.ToLower(o.ID)] = o.MaxBody
	}
	for _, o := range documented(t) {
		sign := admin.Authorize
		switch o.tag {
		case "public":
			continue
		case "enrol":
			sign = func(*http.Request, []byte) error { return nil }
		case "device":
			sign = d.client().Authorize
		}
		path, _ := b.example(o, d)
		call := func(contentType string, body []byte) api.ProblemCode {
			t.Helper()
			r, err := http.NewRequest(o.method, b.srv.URL+api.Prefix+path, bytes.NewReader(body))
			b.must(err)
			if contentType != "" {
				r.Header.Set("Content-Type", contentType)
			}
			r.Header.Set("Pinta-Batch-Id", "batch-0001")
			b.must(sign(r, body))
			res, err := b.srv.Client().Do(r)
			if err != nil {
				// The server may close the connection on a body that it doesn't want.
				return api.ProblemCodeTooLarge
			}
			_, err = api.Raw(res, nil)
			return api.CodeOf(err)
		}
		before := b.dump()
		limit := limits[strings.ToLower(o.id)]
		if limit == 0 {
			equal(t, call("application/json", []byte("{}")), api.ProblemCodeTooLarge)
			equal(t, b.dump(), before)
			continue
		}
		for _, bad := range []struct {
			contentType string
			body        []byte
			want        api.ProblemCode
		}{
			{o.contentType, nil, api.ProblemCodeEmptyBody},
			{"text/plain", []byte("x"), api.ProblemCodeUnsupportedMediaType},
			{"", []byte("x"), api.ProblemCodeUnsupportedMediaType},
			{o.contentType, []byte("\x00\xff garbage"), api.ProblemCodeMalformed},
			{o.contentType, []byte("["), api.ProblemCodeMalformed},
			{o.contentType, bytes.Repeat([]byte(" "), int(limit)+1), api.ProblemCodeTooLarge},
		} {
			if got := call(bad.contentType, bad.body); got != bad.want {
				t.Errorf("%s with %q %.9q: %q, want %q", o.id, bad.contentType, bad.body, got, bad.want)
			}
		}
		if b.dump() != before {
			t.Errorf("%s: a refused body changed something", o.id)
		}
	}
}
