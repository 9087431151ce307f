package serve

import (
	"net"

	"golang.org/x/sys/unix"
)

func peerOf(c net.Conn) (Peer, error) {
	var u *unix.Ucred
	err := control(c, func(fd int) (err error) {
		u, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
		return err
	})
	if err != nil {
		return Peer{}, err
	}
	return Peer{UID: int(u.Uid), GID: int(u.Gid), PID: int(u.Pid)}, nil
}
