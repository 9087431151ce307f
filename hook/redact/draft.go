package redact

import "slices"

// plain makes Masker a worker: detected values first, then redaction of what remains, seen once as it was (half a token
// besides a marker is still half a token) and once as it has become; at last values that only the redacted form holds.
func (m *Masker) plain(key, text string) []edit {
	if m.late {
		return nil
	}
	d := draft{text: text}
	d.cover(m.named(text))
	if !m.mask {
		d.cover(subtract(m.secrets(key, text), d.edits))
	}
	if len(d.edits) == 0 || m.mask {
		return d.edits
	}
	now, marks := d.render()
	if d.coverOutside(m.secrets(key, now), marks) {
		now, marks = d.render()
	}
	d.coverOutside(m.named(now), marks)
	return d.edits
}

func (m *Masker) scalar(text string) []edit { return m.named(text) }

func (m *Masker) accounts() accounts {
	if m.mask {
		return keepAccounts
	}
	return m.rules.accounts()
}

// named lists the detected values in text.
func (m *Masker) named(text string) []edit {
	hits := m.ranges(text)
	if len(hits) == 0 {
		return nil
	}
	out := make([]edit, len(hits))
	for i, h := range hits {
		out[i] = edit{h.start, h.end, m.markers[h.value], true}
	}
	return out
}

// secrets lists what redaction finds in text.
func (m *Masker) secrets(key, text string) []edit { return m.rules.plain(key, text) }

// draft is a text and the markers it gets: edits are sorted, apart from each other and about the original text.
type draft struct {
	text  string
	edits []edit
}

// render shows the text with its markers.
func (d *draft) render() (string, []mark) { return apply(d.text, d.edits) }

// cover adds edits that touch none that are there.
func (d *draft) cover(list []edit) {
	d.edits = append(d.edits, list...)
	slices.SortFunc(d.edits, func(a, b edit) int { return a.start - b.start })
}

// coverOutside adds edits of the rendered text as far as they lie outside its markers: those are never masked again. It
// tells whether there were any.
func (d *draft) coverOutside(list []edit, marks []mark) bool {
	holes := make([]edit, len(marks))
	for i, m := range marks {
		holes[i] = edit{start: m.start, end: m.end}
	}
	list = subtract(list, holes)
	k := 0 // markers before the edit at hand
	for i := range list {
		for k < len(marks) && marks[k].end <= list[i].start {
			k++
		}
		if k > 0 {
			back := d.edits[k-1].end - marks[k-1].end
			list[i].start, list[i].end = list[i].start+back, list[i].end+back
		}
	}
	d.cover(list)
	return len(list) > 0
}

// subtract returns the parts of edits that lie outside holes; both lists are sorted and free of overlaps.
func subtract(list, holes []edit) []edit {
	if len(holes) == 0 {
		return list
	}
	var out []edit
	k := 0
	for _, e := range list {
		for k < len(holes) && holes[k].end <= e.start {
			k++
		}
		for h := k; h < len(holes) && holes[h].start < e.end; h++ {
			if e.start < holes[h].start {
				part := e
				part.end = holes[h].start
				out = append(out, part)
			}
			e.start = max(e.start, holes[h].end)
		}
		if e.start < e.end {
			out = append(out, e)
		}
	}
	return out
}
