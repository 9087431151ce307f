// Command collector is a real OpenTelemetry Collector for the end-to-end tests:
// its own service and OTLP receiver, and an exporter that writes each request to
// a file before it is answered, so that what the Collector took outlives a kill.
// It is a module of its own so that the agent's go.mod stays free of it.
//
//	collector --config config.yaml
package main

import (
	"context"
	"log"
	"os"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

// lines is the exporter "lines": OTLP/JSON, a line each request.
type lines struct {
	component.StartFunc
	component.ShutdownFunc
	file *os.File
}

type linesConfig struct {
	Path string `mapstructure:"path"`
}

func (lines) Capabilities() consumer.Capabilities { return consumer.Capabilities{} }

func (l lines) ConsumeTraces(_ context.Context, td ptrace.Traces) error {
	b, err := (&ptrace.JSONMarshaler{}).MarshalTraces(td)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(b, '\n')) // one write to a file opened to append
	return err
}

func newLines(_ context.Context, _ exporter.Settings, c component.Config) (exporter.Traces, error) {
	f, err := os.OpenFile(c.(*linesConfig).Path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return lines{file: f, ShutdownFunc: func(context.Context) error { return f.Close() }}, nil
}

func factories() (f otelcol.Factories, err error) {
	if f.Receivers, err = otelcol.MakeFactoryMap(otlpreceiver.NewFactory()); err != nil {
		return f, err
	}
	f.Telemetry = otelconftelemetry.NewFactory()
	f.Exporters, err = otelcol.MakeFactoryMap(exporter.NewFactory(component.MustNewType("lines"),
		func() component.Config { return &linesConfig{} }, exporter.WithTraces(newLines, component.StabilityLevelDevelopment)))
	return f, err
}

func main() {
	cmd := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo: component.BuildInfo{Command: "collector", Version: "test"},
		Factories: factories,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: confmap.ResolverSettings{
			ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
			DefaultScheme:     "file",
		}},
	})
	if err := cmd.Execute(); err != nil {
		log.Fatal(err)
	}
}
