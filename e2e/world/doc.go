// Package world starts the product as a customer has it: the three programs as
// real processes, a Manager and an OTLP collector on loopback, and machines,
// each with an agent, in throw-away folders. The demo and the end-to-end tests
// share it. It is no test double of anything and decides nothing.
package world
