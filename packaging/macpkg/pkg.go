package macpkg

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"text/template"
)

var packageInfo = template.Must(template.New("PackageInfo").Funcs(template.FuncMap{"x": escape}).Parse(`<?xml version="1.0" encoding="utf-8"?>
<pkg-info format-version="2" identifier="{{x .Identifier}}" version="{{x .Version}}" install-location="/" auth="root" relocatable="false" overwrite-permissions="true" postinstall-action="none">
  <payload numberOfFiles="{{.Count}}" installKBytes="{{.KBytes}}"/>
{{- range .Bundles}}
  <bundle path="./{{x .Path}}" id="{{x .Identifier}}" CFBundleShortVersionString="{{x .Version}}" CFBundleVersion="{{x .Version}}"/>
{{- end}}
  <bundle-version>{{range .Bundles}}<bundle id="{{x .Identifier}}"/>{{end}}</bundle-version>
  <scripts>
{{- range .Scripts}}
    <{{x .Path}} file="./{{x .Path}}"/>
{{- end}}
  </scripts>
</pkg-info>
`))

var distribution = template.Must(template.New("Distribution").Funcs(template.FuncMap{"x": escape}).Parse(`<?xml version="1.0" encoding="utf-8"?>
<installer-gui-script minSpecVersion="2">
  <title>{{x .Title}}</title>
  <options customize="never" require-scripts="false" rootVolumeOnly="true" hostArchitectures="x86_64,arm64"/>
  <domains enable_anywhere="false" enable_currentUserHome="false" enable_localSystem="true"/>
  <allowed-os-versions><os-version min="{{x .MinOS}}"/></allowed-os-versions>
  <choices-outline><line choice="default"><line choice="{{x .Identifier}}"/></line></choices-outline>
  <choice id="default"/>
  <choice id="{{x .Identifier}}" visible="false"><pkg-ref id="{{x .Identifier}}"/></choice>
  <pkg-ref id="{{x .Identifier}}" version="{{x .Version}}" onConclusion="none" installKBytes="{{.KBytes}}" auth="root">#base.pkg</pkg-ref>
</installer-gui-script>
`))

func escape(s string) string {
	var b bytes.Buffer
	xml.EscapeText(&b, []byte(s))
	return b.String()
}

// Write returns the package.
func Write(p Package) ([]byte, error) {
	files, scripts := complete(p.Files), complete(p.Scripts)
	size := 0
	for _, f := range files {
		size += len(f.Data)
	}
	facts := struct {
		Package
		Count, KBytes int
	}{p, len(files), (size + 1023) / 1024}
	var info, dist bytes.Buffer
	if err := packageInfo.Execute(&info, facts); err != nil {
		return nil, err
	}
	if err := distribution.Execute(&dist, facts); err != nil {
		return nil, err
	}
	bom, err := bill(files, p.Time)
	if err != nil {
		return nil, err
	}
	load, err := payload(files, p.Time)
	if err != nil {
		return nil, fmt.Errorf("payload: %w", err)
	}
	packed, err := payload(scripts, p.Time)
	if err != nil {
		return nil, fmt.Errorf("scripts: %w", err)
	}
	return xar(p.Time, member{name: "Distribution", data: dist.Bytes()}, member{name: "base.pkg", members: []member{
		{name: "PackageInfo", data: info.Bytes()}, {name: "Bom", data: bom}, {name: "Payload", data: load}, {name: "Scripts", data: packed}}})
}
