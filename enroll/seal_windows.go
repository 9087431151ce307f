package enroll

import (
	"bytes"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"
)

// purpose is mixed into the protection, so that another program's blob is never
// taken for a key of ours.
var purpose = []byte("pinta-agent device key 1")

// seal protects by DPAPI. An administrator's `enroll` writes what the service
// reads as SYSTEM, so an elevated process binds to the machine (the folder's
// ACL keeps others out), a user's process to the user.
func seal(secret []byte) ([]byte, error) {
	flags := uint32(windows.CRYPTPROTECT_UI_FORBIDDEN)
	if windows.GetCurrentProcessToken().IsElevated() {
		flags |= windows.CRYPTPROTECT_LOCAL_MACHINE
	}
	var out windows.DataBlob
	if err := windows.CryptProtectData(blob(secret), nil, blob(purpose), 0, nil, flags, &out); err != nil {
		return nil, fmt.Errorf("protect the device key (DPAPI): %w", err)
	}
	return take(&out), nil
}

func unseal(sealed []byte) ([]byte, error) {
	var out windows.DataBlob
	err := windows.CryptUnprotectData(blob(sealed), nil, blob(purpose), 0, nil, windows.CRYPTPROTECT_UI_FORBIDDEN, &out)
	if err != nil {
		return nil, fmt.Errorf("read the device key (DPAPI): %w; it was made on another machine or by another user: enrol again", err)
	}
	return take(&out), nil
}

func blob(b []byte) *windows.DataBlob {
	if len(b) == 0 {
		return &windows.DataBlob{}
	}
	return &windows.DataBlob{Size: uint32(len(b)), Data: &b[0]}
}

// take copies what the system allocated and frees it.
func take(b *windows.DataBlob) []byte {
	plain := bytes.Clone(unsafe.Slice(b.Data, b.Size))
	clear(unsafe.Slice(b.Data, b.Size))
	_, _ = windows.LocalFree(windows.Handle(unsafe.Pointer(b.Data)))
	return plain
}
