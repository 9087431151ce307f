# Detection rule of the Win32 app, where a rule by product code is not wanted: writes a line and exits 0 if this version or a
# newer one is installed. The copy in a release's admin.zip names that release.
$version = [version]'@VERSION@'
$agent = Join-Path $env:ProgramFiles 'Pinta\Agent\pinta-agent.exe'
$installed = (Get-ItemProperty -LiteralPath 'HKLM:\Software\Pinta\Agent' -ErrorAction SilentlyContinue).Version
if ($installed -and (Test-Path -LiteralPath $agent -PathType Leaf) -and ([version]$installed -ge $version)) {
    Write-Output "pinta-agent $installed"
    exit 0
}
exit 1
