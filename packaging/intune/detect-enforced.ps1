# Intune remediation, detection part. Exit 0: this machine's hooks are enforced; 1: they are not, and the remediation runs.
# "Enforced" is tested by running the registered hook with a canary event (doctor), not by looking for a service or a file.
# Run as SYSTEM, in 64-bit PowerShell.
$agent = Join-Path $env:ProgramW6432 'Pinta\Agent\pinta-agent.exe' # also right in a 32-bit PowerShell
if (-not (Test-Path -LiteralPath $agent -PathType Leaf)) {
    Write-Output 'pinta-agent is not installed'
    exit 1
}
try {
    $status = & $agent status --json | ConvertFrom-Json
    $doctor = & $agent doctor --json | ConvertFrom-Json
} catch {
    Write-Output "pinta-agent does not answer: $_"
    exit 1
}
$faults = @($doctor.findings | Where-Object { $_.severity -eq 'error' } | ForEach-Object { $_.id })
if (-not $status.deviceId) { $faults += 'agent.not-enrolled' }
if (-not $status.service.running) { $faults += 'agent.not-running' }
elseif (-not $status.service.detail.serving) { $faults += 'endpoint.down' }
if ($status.config.version -lt 1) { $faults += 'config.none' }
$faults = @($faults | Sort-Object -Unique)
if ($faults.Count -gt 0) {
    Write-Output ('not enforced: ' + ($faults -join ', '))
    exit 1
}
$seen = @($status.service.detail.users | Where-Object { $_.lastEvent -and $_.lastEvent -notlike '0001-*' } | ForEach-Object { $_.name })
Write-Output ('enforced; events seen of: ' + ($seen -join ', '))
exit 0
