// Package msi makes the Windows Installer package on Linux: wixl writes the
// base, msibuild the table rows that wixl doesn't know. It adds no action that
// runs code (security.md S4).
package msi

import (
	"context"
	"crypto/sha1" //nolint:gosec // UUID version 5
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options of a package.
type Options struct {
	Release string // the whole version, which the package's identity is made of
	Version string // its numeric part
	Arch    string // Go's: amd64, arm64
	Bin     string // folder of pinta-agent.exe and pinta-hook.exe
	Source  string // the .wxs file
	Out     string
	Time    time.Time
}

// Tools checks that the programs are there; the error names the Debian package.
func Tools() error {
	var missing []error
	for _, tool := range []struct{ name, pack string }{{"wixl", "wixl"}, {"msibuild", "msitools"}} {
		if _, err := exec.LookPath(tool.name); err != nil {
			missing = append(missing, fmt.Errorf("%s is missing: install it with `apt-get install %s`", tool.name, tool.pack))
		}
	}
	return errors.Join(missing...)
}

// ProductCode of a release: each release, pre-releases too, and architecture
// has its own, the same in each build.
func ProductCode(release, arch string) string { return uuid("product " + release + " " + arch) }

// uuid is a UUID of version 5 in the form that Windows Installer takes.
func uuid(name string) string {
	sum := sha1.Sum([]byte("https://github.com/pinta-ai/pinta-agent#" + name)) //nolint:gosec // UUID version 5
	u := sum[:16]
	u[6], u[8] = u[6]&0x0f|0x50, u[8]&0x3f|0x80
	return strings.ToUpper(fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:]))
}

// Access to our own registry keys and folders: SYSTEM and the administrators,
// nothing inherited.
const private = "D:PAI(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)"
const privateKey = "D:PAI(A;CI;KA;;;SY)(A;CI;KA;;;BA)"

// statements are what wixl leaves out.
var statements = []string{
	// The token may come from an unelevated command line; it is shown nowhere.
	"UPDATE `Property` SET `Value`='WIX_DOWNGRADE_DETECTED;WIX_UPGRADE_DETECTED;ENROLLMENT_TOKEN' WHERE `Property`='SecureCustomProperties'",
	// An upgrade must not take a token away that no Manager could be shown yet
	// (permanent, 16); the service removes it after use.
	"UPDATE `Component` SET `Condition`='ENROLLMENT_TOKEN',`Attributes`=276 WHERE `Component`='cToken'",
	"DELETE FROM `Upgrade` WHERE `ActionProperty`='WIX_UPGRADE_DETECTED'", // its attributes are part of the key
	// The old version goes before the new one comes, within one transaction: what
	// fails afterwards rolls both back.
	"UPDATE `InstallExecuteSequence` SET `Sequence`=1501 WHERE `Action`='RemoveExistingProducts'",
	"CREATE TABLE `MsiLockPermissionsEx` (`MsiLockPermissionsEx` CHAR(72) NOT NULL, `LockObject` CHAR(72) NOT NULL, `Table` CHAR(32) NOT NULL, `SDDLText` CHAR(0) NOT NULL, `Condition` CHAR(255) PRIMARY KEY `MsiLockPermissionsEx`)",
	"INSERT INTO `MsiLockPermissionsEx` (`MsiLockPermissionsEx`,`LockObject`,`Table`,`SDDLText`) VALUES ('lpData','DATADIR','CreateFolder','" + private + "')",
	"INSERT INTO `MsiLockPermissionsEx` (`MsiLockPermissionsEx`,`LockObject`,`Table`,`SDDLText`) VALUES ('lpToken','rToken','Registry','" + privateKey + "')",
	// Start again after 1 s, 5 s, then every minute; the count starts anew each day.
	"CREATE TABLE `MsiServiceConfigFailureActions` (`MsiServiceConfigFailureActions` CHAR(72) NOT NULL, `Name` CHAR(255) NOT NULL LOCALIZABLE, `Event` SHORT NOT NULL, `ResetPeriod` LONG, `RebootMessage` CHAR(255) LOCALIZABLE, `Command` CHAR(255) LOCALIZABLE, `Actions` CHAR(0), `DelayActions` CHAR(0), `Component_` CHAR(72) NOT NULL PRIMARY KEY `MsiServiceConfigFailureActions`)",
	"INSERT INTO `MsiServiceConfigFailureActions` (`MsiServiceConfigFailureActions`,`Name`,`Event`,`ResetPeriod`,`Actions`,`DelayActions`,`Component_`) VALUES ('sfAgent','pinta-agent',3,86400,'1[~]1[~]1','1000[~]5000[~]60000','cAgent')",
	// Delayed start (3), and failure actions on an exit with an error too (4).
	"CREATE TABLE `MsiServiceConfig` (`MsiServiceConfig` CHAR(72) NOT NULL, `Name` CHAR(255) NOT NULL LOCALIZABLE, `Event` SHORT NOT NULL, `ConfigType` LONG NOT NULL, `Argument` CHAR(0), `Component_` CHAR(72) NOT NULL PRIMARY KEY `MsiServiceConfig`)",
	"INSERT INTO `MsiServiceConfig` (`MsiServiceConfig`,`Name`,`Event`,`ConfigType`,`Argument`,`Component_`) VALUES ('scDelayed','pinta-agent',3,3,'1','cAgent')",
	"INSERT INTO `MsiServiceConfig` (`MsiServiceConfig`,`Name`,`Event`,`ConfigType`,`Argument`,`Component_`) VALUES ('scOnError','pinta-agent',3,4,'1','cAgent')",
	"INSERT INTO `InstallExecuteSequence` (`Action`,`Condition`,`Sequence`) VALUES ('MsiConfigureServices','VersionMsi >= \"5.00\"',5850)",
}

// upgrades: lower versions give way, with the features' state (1), and so does
// one of the same number (512), as a pre-release of this release is.
func upgrades(version string) string {
	return "INSERT INTO `Upgrade` (`UpgradeCode`,`VersionMax`,`Attributes`,`ActionProperty`) VALUES ('{" + upgradeCode + "}','" + version + "',513,'WIX_UPGRADE_DETECTED')"
}

// upgradeCode is what all versions have in common.
const upgradeCode = "3D2B7A52-5A0F-4E52-9B57-0F6C7F7C9E31"

// Write makes the package.
func Write(ctx context.Context, o Options) error {
	if err := Tools(); err != nil {
		return err
	}
	source, err := filepath.Abs(o.Source)
	if err != nil {
		return err
	}
	out, err := filepath.Abs(o.Out)
	if err != nil {
		return err
	}
	for _, name := range []string{"pinta-agent.exe", "pinta-hook.exe"} { // the cabinet keeps their times
		if err := os.Chtimes(filepath.Join(o.Bin, name), o.Time, o.Time); err != nil {
			return err
		}
	}
	code := ProductCode(o.Release, o.Arch)
	// wixl knows no arm64: the tables are the same, the template says which it is.
	if err := run(ctx, o.Bin, "wixl", "-a", "x64", "-D", "Version="+o.Version, "-D", "ProductCode="+code, "-D", "UpgradeCode="+upgradeCode, "-o", out, source); err != nil {
		return err
	}
	for _, s := range append(slices.Clone(statements), upgrades(o.Version)) {
		if err := run(ctx, o.Bin, "msibuild", out, "-q", s); err != nil {
			return err
		}
	}
	template := map[string]string{"amd64": "x64;1033", "arm64": "Arm64;1033"}[o.Arch]
	if err := run(ctx, o.Bin, "msibuild", out, "-s", "Pinta Agent "+o.Release, "Pinta", template, "{"+uuid("package "+o.Release+" "+o.Arch)+"}"); err != nil {
		return err
	}
	return settle(out, o.Time)
}

func run(ctx context.Context, dir, program string, args ...string) error {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return nil
}
