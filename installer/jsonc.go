package installer

// plainJSON turns JSON with comments and trailing commas, as editors and
// Copilot's settings files have it, into JSON: comments become blanks. A BOM is
// dropped. Input that is no JSONC comes out as no JSON.
func plainJSON(data []byte) []byte {
	if len(data) >= 3 && string(data[:3]) == string(bom) {
		data = data[3:]
	}
	out := make([]byte, 0, len(data))
	comma := -1 // index in out of a comma that nothing has followed yet
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			comma = -1
			start := i
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			out = append(out, data[start:min(i+1, len(data))]...)
		case c == '/' && i+1 < len(data) && data[i+1] == '/':
			for i+1 < len(data) && data[i+1] != '\n' {
				i++
			}
		case c == '/' && i+1 < len(data) && data[i+1] == '*':
			for i += 2; i < len(data) && !(data[i] == '/' && data[i-1] == '*' && i > 2); i++ {
			}
			out = append(out, ' ')
		case c == ',':
			comma = len(out)
			out = append(out, c)
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
			out = append(out, c)
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			out = append(out, c)
		default:
			comma = -1
			out = append(out, c)
		}
	}
	return out
}
