package installer

// Object names a thing that the installer keeps right.
type Object string

// The objects.
const (
	HookBinary Object = "hook-binary"
	HookImage  Object = "hook-image" // the verified copy in the state folder
	PolicyFile Object = "policy-file"
	HookFile   Object = "hook-file"
	EnvFile    Object = "env-file"
	HookData   Object = "hook-data" // queue and trace store of a home's hook
	Folder     Object = "folder"
	Journal    Object = "journal"
)

// Kind is how a thing differs from what it should be (installer.md 5).
type Kind string

// The kinds that repair puts right.
const (
	Absent        Kind = "absent"
	Altered       Kind = "altered"
	Unreadable    Kind = "unreadable"
	WrongType     Kind = "wrong-type" // directory, link, device, or a file with a second name
	WrongOwner    Kind = "wrong-owner"
	WrongMode     Kind = "wrong-mode"
	NotExecutable Kind = "not-executable"
	StalePath     Kind = "stale-path" // registers another hook binary than ours
	UnknownSchema Kind = "unknown-schema"
	NotOurs       Kind = "foreign"     // somebody else's content at our path
	OldAdapter    Kind = "old-adapter" // the Node adapter's content at our path
	Unwanted      Kind = "unwanted"    // there, but the configuration or an uninstall says no
)

// The kinds that are only reported, because what causes them isn't ours.
const (
	Shadowed   Kind = "shadowed"
	Duplicated Kind = "duplicated"
	Blocked    Kind = "blocked" // can't be put right here: the error says why
)

// Kinds lists every kind of drift; docs/drift.md explains each.
var Kinds = []Kind{Absent, Altered, Unreadable, WrongType, WrongOwner, WrongMode, NotExecutable, StalePath, UnknownSchema,
	NotOurs, OldAdapter, Unwanted, Shadowed, Duplicated, Blocked}
