package endpoint

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// TestUploadsEndWithTheService: an upload whose answer can't come any more is
// not waited for, so that the child ends at once.
func TestUploadsEndWithTheService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUplink(func(fromChild) error { return nil }, func() string { return "https://manager" }, nil)
		failed := make(chan error)
		upload := func() {
			r, err := http.NewRequest(http.MethodPost, "https://manager"+tracesURI, strings.NewReader("x"))
			if err == nil {
				_, err = u.RoundTrip(r) //nolint:bodyclose // there is none
			}
			failed <- err
		}
		go upload()
		synctest.Wait()
		u.close()
		if err := <-failed; err == nil {
			t.Error("an upload without an answer succeeded")
		}
		go upload()
		if err := <-failed; err == nil {
			t.Error("an upload of an ending child succeeded")
		}
	})
}

// TestSecondAnswer: a service that answers twice doesn't stop the child.
func TestSecondAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUplink(nil, nil, nil)
		u.waiting[1] = make(chan *uploaded, 1)
		u.answer(&uploaded{ID: 1})
		u.answer(&uploaded{ID: 1})
	})
}
