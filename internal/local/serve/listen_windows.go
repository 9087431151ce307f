package serve

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"
)

// clientRights are FILE_GENERIC_READ|FILE_GENERIC_WRITE less
// FILE_CREATE_PIPE_INSTANCE (4): who may call must not be able to answer.
const clientRights = "0x12019b"

// listen makes the first instance of the pipe or fails; remote clients are
// refused by the pipe's type and by the list.
func listen(name string, o Options) (net.Listener, error) {
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return nil, fmt.Errorf("listen on %s: who am I: %w", name, err)
	}
	sddl := "O:" + user.User.Sid.String() + "D:P(D;;GA;;;NU)(A;;GA;;;SY)(A;;GA;;;" + user.User.Sid.String() + ")"
	if o.Everyone {
		sddl += "(A;;GA;;;BA)(A;;" + clientRights + ";;;AU)"
	}
	l, err := winio.ListenPipe(name, &winio.PipeConfig{SecurityDescriptor: sddl, InputBufferSize: 64 << 10, OutputBufferSize: 64 << 10})
	if errors.Is(err, windows.ERROR_ACCESS_DENIED) || errors.Is(err, windows.ERROR_PIPE_BUSY) || errors.Is(err, os.ErrExist) {
		err = fmt.Errorf("%w (%w)", ErrInUse, err)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", name, err)
	}
	return l, nil
}
