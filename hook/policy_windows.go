package hook

import (
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/windows"

	"github.com/pinta-ai/pinta-agent/internal/safefile"
)

// openPolicy opens the machine's hook file at its real path, never below
// --root, if the client has read it: it and its folder belong to SYSTEM or the
// administrators, and the file is as it was when the client began.
func openPolicy() (Policy, error) {
	data, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(data, "GitHub", "Copilot", "policy.d")
	path := filepath.Join(dir, "90-pinta.json")
	for _, name := range [...]string{dir, path} {
		if err := ownedByMachine(name); err != nil {
			return nil, err
		}
	}
	f, err := safefile.Open(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	// A client reads its hooks once, when a session starts (host.md): one that
	// was there before the file has the user's entry alone. Its rights stamp the
	// file as its content does.
	var info struct{ created, accessed, written, changed, attributes int64 }
	err = windows.GetFileInformationByHandleEx(windows.Handle(f.Fd()), windows.FileBasicInfo, (*byte)(unsafe.Pointer(&info)), uint32(unsafe.Sizeof(info)))
	if err == nil {
		var start int64
		if start, err = clientStart(); err == nil && info.changed >= start {
			err = fs.ErrNotExist
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func ownedByMachine(path string) error {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return err
	}
	if !owner.IsWellKnown(windows.WinLocalSystemSid) && !owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) {
		return windows.ERROR_ACCESS_DENIED
	}
	return nil
}
