package local

import (
	"errors"
	"io"
	"time"

	"golang.org/x/sys/windows"
)

// errOwner says that somebody else serves the pipe: whoever may create a pipe
// of the agent's name before the agent does would read every event.
var errOwner = errors.New("the pipe belongs neither to SYSTEM nor to this user")

// Dial connects to the pipe of t. The server may identify this process but
// not act as it, and must be SYSTEM or the same user.
func Dial(t Target, deadline time.Time) (Conn, error) {
	if t.Network != "pipe" {
		return nil, errors.New("this system is served by a named pipe, not by a socket")
	}
	name, err := windows.UTF16PtrFromString(t.Address)
	if err != nil {
		return nil, err
	}
	h, err := openPipe(name, deadline)
	if err != nil {
		return nil, err
	}
	if err := checkOwner(h); err != nil {
		_ = windows.CloseHandle(h)
		return nil, err
	}
	p := &pipe{handle: h, deadline: deadline}
	for _, event := range []*windows.Handle{&p.reads, &p.writes} {
		if *event, err = windows.CreateEvent(nil, 1, 0, nil); err != nil {
			_ = p.Close()
			return nil, err
		}
	}
	return p, nil
}

func openPipe(name *uint16, deadline time.Time) (windows.Handle, error) {
	// Generic write access would ask for the right to create instances of the
	// pipe as well, which its list denies to clients.
	const access = windows.FILE_GENERIC_READ | windows.FILE_GENERIC_WRITE&^windows.FILE_APPEND_DATA
	const flags = windows.FILE_FLAG_OVERLAPPED | windows.SECURITY_SQOS_PRESENT | windows.SECURITY_IDENTIFICATION
	for {
		h, err := windows.CreateFile(name, access, 0, nil, windows.OPEN_EXISTING, flags, 0)
		if err != windows.ERROR_PIPE_BUSY {
			return h, err
		}
		if !time.Now().Before(deadline) {
			return windows.InvalidHandle, ErrTimeout
		}
		time.Sleep(time.Millisecond) // every instance is taken: others are being served
	}
}

func checkOwner(h windows.Handle) error {
	sd, err := windows.GetSecurityInfo(h, windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return err
	}
	// What SYSTEM creates belongs to Administrators unless it says otherwise,
	// and nobody else can make that group an owner.
	if owner.IsWellKnown(windows.WinLocalSystemSid) || owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) {
		return nil
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return err
	}
	if !owner.Equals(user.User.Sid) {
		return errOwner
	}
	return nil
}

// pipe is the client's end, read and written with overlapped calls so that
// each can end by the deadline. One reader and one writer may work at once, as
// net/http does: each has an event of its own, or the end of a write would pass
// for the end of a read.
type pipe struct {
	handle, reads, writes windows.Handle
	deadline              time.Time
}

func (p *pipe) SetDeadline(t time.Time) error { p.deadline = t; return nil }

func (p *pipe) Read(b []byte) (int, error) {
	n, err := p.transfer(p.reads, func(done *uint32, o *windows.Overlapped) error { return windows.ReadFile(p.handle, b, done, o) })
	if err == windows.ERROR_BROKEN_PIPE || err == windows.ERROR_PIPE_NOT_CONNECTED || err == nil && n == 0 && len(b) > 0 {
		return n, io.EOF
	}
	return n, err
}

func (p *pipe) Write(b []byte) (int, error) {
	written := 0
	for written < len(b) {
		n, err := p.transfer(p.writes, func(done *uint32, o *windows.Overlapped) error {
			return windows.WriteFile(p.handle, b[written:], done, o)
		})
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// transfer starts one overlapped call and waits for it, or cancels it at the
// deadline and waits until the system has let go of the buffer.
func (p *pipe) transfer(event windows.Handle, start func(*uint32, *windows.Overlapped) error) (int, error) {
	var done uint32
	o := &windows.Overlapped{HEvent: event}
	err := start(&done, o)
	if err != windows.ERROR_IO_PENDING {
		return int(done), err
	}
	ms := uint32(max(time.Until(p.deadline), 0) / time.Millisecond)
	state, werr := windows.WaitForSingleObject(event, ms)
	if werr != nil || state != windows.WAIT_OBJECT_0 {
		_ = windows.CancelIoEx(p.handle, o)
	}
	err = windows.GetOverlappedResult(p.handle, o, &done, true)
	if err == windows.ERROR_OPERATION_ABORTED {
		err = ErrTimeout
	}
	return int(done), err
}

func (p *pipe) Close() error {
	for _, event := range []windows.Handle{p.reads, p.writes} {
		if event != 0 {
			_ = windows.CloseHandle(event)
		}
	}
	return windows.CloseHandle(p.handle)
}
