package serve

import (
	"net"

	"golang.org/x/sys/unix"
)

func peerOf(c net.Conn) (p Peer, err error) {
	err = control(c, func(fd int) error {
		u, err := unix.GetsockoptXucred(fd, unix.SOL_LOCAL, unix.LOCAL_PEERCRED)
		if err != nil {
			return err
		}
		p = Peer{UID: int(u.Uid), GID: -1}
		if u.Ngroups > 0 {
			p.GID = int(u.Groups[0])
		}
		p.PID, err = unix.GetsockoptInt(fd, unix.SOL_LOCAL, unix.LOCAL_PEERPID)
		return err
	})
	return p, err
}
