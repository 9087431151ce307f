package serve

import (
	"fmt"
	"net"
	"runtime"
	"sync"

	"golang.org/x/sys/windows"
)

var impersonate = windows.NewLazySystemDLL("advapi32.dll").NewProc("ImpersonateNamedPipeClient")

// peerOf takes the client's token (identification level is enough) and reads
// its user. Windows grants it only once data was read from the pipe. The work
// has a thread of its own: one that fails to revert dies with its goroutine
// instead of running something else in the client's name.
func peerOf(c net.Conn) (Peer, error) {
	f, ok := c.(interface{ Fd() uintptr })
	if !ok {
		return Peer{}, fmt.Errorf("who is at the other end of a %T: only a pipe can tell", c)
	}
	pipe := windows.Handle(f.Fd())
	p := Peer{UID: -1, GID: -1}
	var pid uint32
	if err := windows.GetNamedPipeClientProcessId(pipe, &pid); err != nil {
		return p, fmt.Errorf("process at the other end of the pipe: %w", err)
	}
	p.PID = int(pid)
	type answer struct {
		sid *windows.SID
		err error
	}
	done := make(chan answer)
	go func() {
		runtime.LockOSThread()
		sid, err, reverted := clientSID(pipe)
		if reverted {
			runtime.UnlockOSThread()
		}
		done <- answer{sid, err}
	}()
	a := <-done
	if a.err != nil {
		return p, fmt.Errorf("user at the other end of the pipe: %w", a.err)
	}
	p.SID = a.sid.String()
	p.User = userName(a.sid, p.SID)
	return p, nil
}

func clientSID(pipe windows.Handle) (sid *windows.SID, err error, reverted bool) {
	if ok, _, err := impersonate.Call(uintptr(pipe)); ok == 0 {
		return nil, err, true
	}
	var t windows.Token
	err = windows.OpenThreadToken(windows.CurrentThread(), windows.TOKEN_QUERY, true, &t)
	reverted = windows.RevertToSelf() == nil
	if err != nil {
		return nil, err, reverted
	}
	defer t.Close()
	u, err := t.GetTokenUser()
	if err != nil {
		return nil, err, reverted
	}
	sid, err = u.User.Sid.Copy()
	return sid, err, reverted
}

// names remembers accounts, since a look-up may ask a domain controller.
var names struct {
	sync.Mutex
	m map[string]string
}

func userName(sid *windows.SID, key string) string {
	names.Lock()
	defer names.Unlock()
	if n, ok := names.m[key]; ok {
		return n
	}
	account, domain, _, err := sid.LookupAccount("")
	if err != nil {
		return "" // not remembered: the controller may be back next time
	}
	if names.m == nil || len(names.m) >= 1024 {
		names.m = map[string]string{}
	}
	names.m[key] = domain + `\` + account
	return names.m[key]
}
