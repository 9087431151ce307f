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
		_ = chmod(f, fi.Mode().Perm()&perm) // a file of another account keeps its mode, and is still ours to append to
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
		_ = truncate(f, fi.Size())
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

// Blank overwrites part of a file with blanks and a final LF: lines that are done with, whose place in the file others
// still go by. Interrupted, it leaves blanks and then the rest of what was there.
func Blank(f *os.File, from, to int64) error {
	blanks := make([]byte, min(to-from, 256<<10))
	for i := range blanks {
		blanks[i] = ' '
	}
	for from < to {
		b := blanks[:min(int64(len(blanks)), to-from)]
		if from += int64(len(b)); from == to {
			b[len(b)-1] = '\n'
		}
		if _, err := step(OpWrite, f.Name(), b); err != nil {
			return err
		}
		if _, err := f.WriteAt(b, from-int64(len(b))); err != nil {
			return err
		}
	}
	return nil
}

// Remove deletes a file, or the link itself.
func Remove(path string) error {
	if _, err := step(OpRemove, path, nil); err != nil {
		return err
	}
	return persist(func() error { return os.Remove(path) })
}
