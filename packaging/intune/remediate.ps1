# Intune remediation, remediation part: puts right what is the agent's own, then starts the service if it is down.
# A missing enrolment or a missing package is not repaired here: the app assignment does that.
$agent = Join-Path $env:ProgramW6432 'Pinta\Agent\pinta-agent.exe' # also right in a 32-bit PowerShell
if (-not (Test-Path -LiteralPath $agent -PathType Leaf)) {
    Write-Output 'pinta-agent is not installed'
    exit 1
}
if ((Get-Service -Name 'pinta-agent' -ErrorAction SilentlyContinue).Status -ne 'Running') {
    Start-Service -Name 'pinta-agent' -ErrorAction Continue
}
& $agent repair --json
exit $LASTEXITCODE
