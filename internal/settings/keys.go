package settings

// Kind is the type of a key's value.
type Kind string

// The kinds of values. A Secret value is masked wherever it is shown.
const (
	Text       Kind = "text"
	SecretText Kind = "secret"
	Bool       Kind = "bool"
	Integer    Kind = "integer"
	Duration   Kind = "duration"
)

// Key is one thing that an administrator can configure. The table Keys is the
// source of the loader, of the ADMX template, the configuration profile, the
// agent.yaml schema, the reference page and the status output.
type Key struct {
	Name    string // in agent.yaml and managed preferences
	Policy  string // value name in the registry policy
	Env     string // environment variable of the service
	Kind    Kind
	Default string
	Summary string // one sentence
}

// The names of the keys.
const (
	KeyEnrollmentToken = "enrollmentToken"
	KeyManagerURL      = "managerUrl"
	KeyProxy           = "proxy"
	KeyCAFile          = "caFile"
	KeyHookDir         = "hookDir"
	KeyLogLevel        = "logLevel"
	KeyUserHooks       = "userHooks"
	KeyMachineHooks    = "machineHooks"
	KeyLoopbackListen  = "loopbackListen"
	KeySpoolMaxMiB     = "spoolMaxMiB"
	KeySpoolMaxAge     = "spoolMaxAge"
)

// Keys lists every key in the order in which documents show them.
var Keys = []Key{
	{KeyEnrollmentToken, "EnrollmentToken", "PINTA_ENROLLMENT_TOKEN", SecretText, "", "Enrolment token that the agent uses at its first start."},
	{KeyManagerURL, "ManagerURL", "PINTA_MANAGER_URL", Text, "", "Address of the Manager, if another than the token names."},
	{KeyProxy, "Proxy", "PINTA_PROXY", SecretText, "", "Proxy for calls to the Manager and collectors, as http://user:password@host:port."},
	{KeyCAFile, "CAFile", "PINTA_CA_FILE", Text, "", "PEM bundle of certificate authorities to trust in addition to the system's."},
	{KeyHookDir, "HookDir", "PINTA_HOOK_DIR", Text, "", "Folder of the registered hook binary, if not the platform's default."},
	{KeyLogLevel, "LogLevel", "PINTA_LOG_LEVEL", Text, "info", "Log level: debug, info, warn or error."},
	{KeyUserHooks, "UserHooks", "PINTA_USER_HOOKS", Bool, "true", "Register hooks in each user's home."},
	{KeyMachineHooks, "MachineHooks", "PINTA_MACHINE_HOOKS", Bool, "true", "Register machine policy hooks where the agent runs as an administrator."},
	{KeyLoopbackListen, "LoopbackListen", "PINTA_LOOPBACK_LISTEN", Text, "", "Loopback TCP address for other adapters of the protocol, such as 127.0.0.1:4319; empty means none."},
	{KeySpoolMaxMiB, "SpoolMaxMiB", "PINTA_SPOOL_MAX_MIB", Integer, "256", "Most disk space that undelivered telemetry may take, in MiB."},
	{KeySpoolMaxAge, "SpoolMaxAge", "PINTA_SPOOL_MAX_AGE", Duration, "168h", "Oldest undelivered telemetry that is kept."},
}
