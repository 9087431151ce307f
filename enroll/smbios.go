package enroll

import "bytes"

// smbiosSerial finds the serial number of the system (structure type 1, string
// at offset 7) in a table as Windows hands it out: eight bytes of header, then
// structures, each with its strings behind it (DMTF DSP0134, 6.1 and 7.2).
func smbiosSerial(table []byte) string {
	if len(table) < 8 {
		return ""
	}
	for t := table[8:]; len(t) >= 4; {
		kind, length := t[0], int(t[1])
		if length < 4 || length > len(t) {
			return ""
		}
		end := bytes.Index(t[length:], []byte{0, 0})
		if end < 0 {
			return ""
		}
		if kind == 1 && length > 7 && t[7] > 0 {
			if texts := bytes.Split(t[length:length+end], []byte{0}); int(t[7]) <= len(texts) {
				return string(texts[t[7]-1])
			}
			return ""
		}
		t = t[length+end+2:]
	}
	return ""
}
