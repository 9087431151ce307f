package event

import "strings"

// Kind is what happened, whatever the host's spelling.
type Kind uint8

const (
	Unknown Kind = iota
	SessionStart
	SessionEnd
	UserPromptSubmit
	PreToolUse
	PostToolUse
	PostToolUseFailure
	Stop
	SubagentStart
	SubagentStop
	PreCompact
	Notification
	PermissionRequest
	ErrorOccurred
)

// KindOf classifies a whole event name (hook.md 2.2).
func KindOf(name string) Kind {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "sessionstart":
		return SessionStart
	case "sessionend":
		return SessionEnd
	case "userpromptsubmit", "userpromptsubmitted":
		return UserPromptSubmit
	case "pretooluse":
		return PreToolUse
	case "posttooluse":
		return PostToolUse
	case "posttoolusefailure":
		return PostToolUseFailure
	case "stop", "agentstop":
		return Stop
	case "subagentstart":
		return SubagentStart
	case "subagentstop":
		return SubagentStop
	case "precompact":
		return PreCompact
	case "notification":
		return Notification
	case "permissionrequest":
		return PermissionRequest
	case "erroroccurred":
		return ErrorOccurred
	}
	return Unknown
}

// Guarded says whether a host honours a denial of this kind.
func (k Kind) Guarded() bool {
	return k == PreToolUse || k == PermissionRequest || k == PostToolUse
}

// Surface is where the host runs.
type Surface string

const (
	CLI   Surface = "cli"
	Ext   Surface = "ext"
	Cloud Surface = "cloud"
)

// SurfaceOf tells the surface from the variables that get finds (hook.md 2.5).
func SurfaceOf(get func(string) string) Surface {
	for _, key := range [...]string{"COPILOT_AGENT_JOB_ID", "COPILOT_AGENT_SESSION_ID", "COPILOT_AGENT_PROMPT"} {
		if get(key) != "" {
			return Cloud
		}
	}
	for _, key := range [...]string{"ELECTRON_RUN_AS_NODE", "VSCODE_IPC_HOOK", "VSCODE_PID"} {
		if get(key) != "" {
			return Ext
		}
	}
	return CLI
}
