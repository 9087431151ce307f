package api

// The generator is a tool of its own module, so that what it needs stays out of this one.
//go:generate go -C gen tool oapi-codegen -config types.yaml ../openapi.yaml
//go:generate go -C gen tool oapi-codegen -config public.yaml ../openapi.yaml
//go:generate go -C gen tool oapi-codegen -config enrol.yaml ../openapi.yaml
//go:generate go -C gen tool oapi-codegen -config device.yaml ../openapi.yaml
//go:generate go -C gen tool oapi-codegen -config admin.yaml ../openapi.yaml
