package safefile

import (
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// Protected descriptors (nothing inherited): SYSTEM, administrators and the owner; with others' read bits set, users may read.
const (
	sddlPrivate  = "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;OW)"
	sddlReadable = sddlPrivate + "(A;OICI;0x1200a9;;;BU)"
)

func sddl(perm os.FileMode) string {
	if perm&0o004 != 0 {
		return sddlReadable
	}
	return sddlPrivate
}

func mkdirPrivate(path string, perm os.FileMode) error {
	sd, err := windows.SecurityDescriptorFromString(sddl(perm))
	if err != nil {
		return fail("mkdir", path, err)
	}
	p, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return fail("mkdir", path, err)
	}
	sa := windows.SecurityAttributes{SecurityDescriptor: sd}
	sa.Length = uint32(unsafe.Sizeof(sa))
	if err := windows.CreateDirectory(p, &sa); err != nil {
		return fail("mkdir", path, err)
	}
	return nil
}

// ownDir accepts a directory that SYSTEM, the administrators or this account own.
func ownDir(path string, _ fs.FileInfo, _ os.FileMode) error {
	if err := ownedByUs(path); err != nil {
		return fail("mkdir", path, err)
	}
	return nil
}

// trusted judges the last directory of a chain only: those above have Windows' own protection (Program Files, ProgramData),
// where everybody may create but nobody may replace what SYSTEM made.
func trusted(path string, _ fs.FileInfo, last bool) error {
	if !last {
		return nil
	}
	return ownedByUs(path)
}

func ownedByUs(path string) error {
	sd, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return err
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return err
	}
	if owner.IsWellKnown(windows.WinLocalSystemSid) || owner.IsWellKnown(windows.WinBuiltinAdministratorsSid) {
		return nil
	}
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return err
	}
	if !owner.Equals(user.User.Sid) {
		return ErrOwner
	}
	return nil
}
