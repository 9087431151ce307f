package installer

import "strings"

// The launcher is the command text that a host holds for a whole session, so
// it must stay harmless whatever becomes of the binary: it starts the hook if
// it can, says in one stderr line why it couldn't, and always exits 0, because
// a host denies the tool for any other status (installer.md 1, host.md).

const (
	remedy     = "this call was not checked; run pinta-agent repair or reinstall pinta-agent"
	posixStart = `; w=; e=; r=1; ` +
		`if [ -f "$p" ] && [ -x "$p" ] && [ -s "$p" ]; then ` +
		// stdout goes to the host untouched, stderr is held back until it is
		// known whether the hook or the shell's failure to start it wrote it.
		// "&& … ||" keeps an exported SHELLOPTS=errexit from ending the shell.
		`{ e=$("$p" 2>&1 >&3 3>&-) && r=0 || r=$?; } 3>&1 2>/dev/null; ` +
		// Only the hook's own lines pass: a corrupt image that a shell takes
		// for a script, or a crash dump, would drown the one line that helps.
		`case $e in pinta-copilot:*) ;; *) e= ;; esac; ` +
		`if [ "$r" = 126 ] || [ "$r" = 127 ]; then w="could not start (status $r)"; ` +
		`elif [ "$r" -gt 128 ]; then w="died of signal $((r-128))"; ` +
		`elif [ "$r" != 0 ]; then w="failed with status $r"; fi; ` +
		`elif [ ! -d "${p%/*}" ]; then w="is missing, and its folder too"; ` +
		`elif [ ! -e "$p" ]; then w="is missing"; ` +
		`elif [ ! -f "$p" ]; then w="is not a file"; ` +
		`elif [ ! -s "$p" ]; then w="is empty"; ` +
		`else w="is not executable"; fi; ` +
		`[ -z "$e" ] || echo "$e" >&2; ` +
		`[ -z "$w" ] || echo "pinta-copilot: $p $w; ` + remedy + `" >&2; ` +
		`exit 0`
)

// POSIX returns the launcher for bash (3.2 too), dash, zsh and any other
// POSIX shell. A path with a NUL byte can't exist, so there is no error.
func POSIX(path string) string { return "p=" + posixQuote(path) + posixStart }

func posixQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// psQuotes are what PowerShell takes for a single quote: doubling any of them
// inside a single-quoted string makes it literal.
var psQuotes = strings.NewReplacer("'", "''", "\u2018", "\u2018\u2018", "\u2019", "\u2019\u2019",
	"\u201a", "\u201a\u201a", "\u201b", "\u201b\u201b")

func psQuote(s string) string { return "'" + psQuotes.Replace(s) + "'" }

// PowerShell returns the launcher for Windows PowerShell 5.1 and pwsh 7, in
// Constrained Language Mode too: cmdlets and operators only. Warnings go by
// Write-Error, the one stream that powershell.exe doesn't print on stdout.
func PowerShell(path string) string {
	return `$p = ` + psQuote(path) + `; $w = ''; ` +
		`try { if (Test-Path -LiteralPath $p -PathType Leaf) { ` +
		`$LASTEXITCODE = 0; try { & $p } catch { $w = ' could not start' }; ` +
		`if ($w -eq '' -and $LASTEXITCODE -ne 0) { $w = ' failed with status ' + $LASTEXITCODE } ` +
		`} elseif (Test-Path -LiteralPath $p) { $w = ' is not a file' ` +
		`} elseif (Test-Path -LiteralPath (Split-Path -LiteralPath $p)) { $w = ' is missing' ` +
		`} else { $w = ' is missing, and its folder too' }; ` +
		`if ($w -ne '') { Write-Error -ErrorAction Continue -Message ('pinta-copilot: ' + $p + $w + '; ` + remedy + `') } ` +
		`} catch {}; exit 0`
}
