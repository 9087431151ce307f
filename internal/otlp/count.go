// Package otlp is what those who speak OTLP over HTTP share: how much a body in
// protobuf may cost its reader, what a receiver's answer means, how a body that is
// too large is parted. What spans say is not its business.
package otlp

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// MaxMessages is how many messages and list members a body may hold. An empty
// one takes 2 bytes of a body and 30 times as many of memory; what honest
// senders put into a body of 4 MiB is below a third of this.
const MaxMessages = 1 << 18

// Messages counts the messages and the members of lists in b, a message of the
// kind d. What is nested deeper than depth, or isn't well formed, is not looked
// into: the decoder, which has the same limit, refuses it.
func Messages(b []byte, d protoreflect.MessageDescriptor, depth int) (n int) {
	for len(b) > 0 {
		number, kind, size := protowire.ConsumeTag(b)
		if size < 0 {
			return n
		}
		b = b[size:]
		if size = protowire.ConsumeFieldValue(number, kind, b); size < 0 {
			return n
		}
		field := d.Fields().ByNumber(number)
		if field != nil && kind == protowire.BytesType {
			message := field.Message()
			if message != nil || field.IsList() {
				n++
			}
			if message != nil && depth > 0 {
				inner, _ := protowire.ConsumeBytes(b)
				n += Messages(inner, message, depth-1)
			}
		}
		b = b[size:]
	}
	return n
}
