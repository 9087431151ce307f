# Detection rule of the Win32 app, where a rule by product code is not wanted: writes a line and exits 0 if this version or a
# newer one is installed. The copy in a release's admin.zip names that release.
$version = [version]'@VERSION@'
$agent = Join-Path $env:ProgramW6432 'Pinta\Agent\pinta-agent.exe' # also right in a 32-bit PowerShell
if ((Test-Path -LiteralPath $agent -PathType Leaf) -and ("$(& $agent --version)" -match '\d+\.\d+\.\d+') -and ([version]$Matches[0] -ge $version)) {
    Write-Output "pinta-agent $($Matches[0])"
    exit 0
}
exit 1
