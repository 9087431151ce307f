# Intune custom compliance, discovery script: one line of JSON, judged by compliance.json.
$agent = Join-Path $env:ProgramW6432 'Pinta\Agent\pinta-agent.exe' # also right in a 32-bit PowerShell
$result = @{ PintaInstalled = $false; PintaEnrolled = $false; PintaHookEnforced = $false }
if (Test-Path -LiteralPath $agent -PathType Leaf) {
    $result.PintaInstalled = $true
    try {
        $status = & $agent status --json | ConvertFrom-Json
        $result.PintaEnrolled = [bool]$status.deviceId
        $doctor = & $agent doctor --json | ConvertFrom-Json
        $errors = @($doctor.findings | Where-Object { $_.severity -eq 'error' })
        $result.PintaHookEnforced = ($errors.Count -eq 0) -and [bool]$status.service.detail.serving -and ($status.config.version -ge 1)
    } catch { }
}
return $result | ConvertTo-Json -Compress
