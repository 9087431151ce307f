package safefile

import "os"

// Append adds one line (without its LF) to a file in a single write. A line that a killed writer left unfinished is
// closed first, so it can't spoil the new one; a write that stops half-way (disk full) is taken back. Taking back is
// sound only while no one else appends: callers with rivals hold a Lock. perm is that of a new file; an existing one
// loses the permission bits beyond it.
func Append(path string, line []byte, perm os.FileMode) error {
	f, err := Open(path, os.O_RDWR|os.O_APPEND|os.O_CREATE, perm)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if fi.Mode().Perm()&^perm != 0 {
		f.Chmod(fi.Mode().Perm() & perm) // a file of another account keeps its mode, and is still ours to append to
	}
	buf := make([]byte, 0, len(line)+2)
	if size := fi.Size(); size > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], size-1); err != nil {
			return err
		}
		if last[0] != '\n' {
			buf = append(buf, '\n')
		}
	}
	buf = append(append(buf, line...), '\n')
	if err := write(f, buf); err != nil {
		truncate(f, fi.Size())
		return err
	}
	return nil
}

func truncate(f *os.File, size int64) error {
	if _, err := step(OpTruncate, f.Name(), nil); err != nil {
		return err
	}
	return f.Truncate(size)
}
