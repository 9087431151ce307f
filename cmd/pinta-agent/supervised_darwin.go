package main

import "context"

// supervised serves; launchd needs to be told nothing.
func (a *app) supervised(ctx context.Context) error { return a.serve(ctx, nil) }
