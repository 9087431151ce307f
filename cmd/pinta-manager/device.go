package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinta-ai/pinta-agent/internal/api"
)

func (a *app) groupCommand() *cobra.Command {
	list := &cobra.Command{Use: "list", Short: "List groups", Args: args(0), RunE: func(c *cobra.Command, _ []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		list, err := api.JSON[[]api.Group](client.ListGroups(c.Context()))
		if err != nil {
			return err
		}
		return a.print(list, func(w io.Writer) {
			var rows [][]string
			for _, g := range list {
				rows = append(rows, []string{g.Name, strconv.Itoa(g.Devices), strconv.FormatInt(g.Version, 10), when(g.CreatedAt)})
			}
			table(w, "GROUP\tDEVICES\tPOLICY\tCREATED", rows)
		})
	}}
	create := &cobra.Command{Use: "create NAME", Short: "Create a group", Args: args(1), RunE: func(c *cobra.Command, name []string) error {
		client, err := a.client()
		if err != nil {
			return err
		}
		g, err := api.JSON[api.Group](client.CreateGroup(c.Context(), api.GroupCreate{Name: name[0]}))
		if err != nil {
			return err
		}
		return a.print(g, func(w io.Writer) { fmt.Fprintf(w, "group %s, policy version %d\n", g.Name, g.Version) })
	}}
	return parent("group", "Groups of devices", list, create)
}

func (a *app) deviceCommand() *cobra.Command {
	var group, level string
	list := &cobra.Command{Use: "list", Short: "List devices", Args: args(0), Long: `List devices with what they last reported. CONFIG is the version in force there; ENFORCED says yes once a real
event of a user of that device was judged, not when its hook file is in place.`, RunE: func(c *cobra.Command, _ []string) error {
		list, err := a.devices(c.Context(), group)
		if err != nil {
			return err
		}
		return a.print(list, func(w io.Writer) {
			var rows [][]string
			for _, d := range list {
				config := fmt.Sprintf("%d %s", d.ConfigVersion, d.ConfigState)
				if d.ConfigState == "" {
					config = "-"
				} else if d.Stale {
					config += ", stale"
				}
				enforced := "no"
				if d.Enforced {
					enforced = "yes"
				}
				rows = append(rows, []string{d.DeviceID, string(d.State), d.Group, dash(oneLine(d.Hostname, 40)), dash(d.Os + "/" + d.Arch), dash(oneLine(d.AgentVersion, 20)),
					config, enforced, ago(d.LastSeen)})
			}
			table(w, "DEVICE\tSTATE\tGROUP\tHOST\tSYSTEM\tAGENT\tCONFIG\tENFORCED\tSEEN", rows)
		})
	}}
	list.Flags().StringVar(&group, "group", "", "only of this group")
	show := &cobra.Command{Use: "show ID", Short: "Show a device with its last report", Args: args(1), RunE: func(c *cobra.Command, id []string) error {
		return a.device(func(client *api.Client) (api.Device, error) {
			return api.JSON[api.Device](client.GetDevice(c.Context(), id[0]))
		})
	}}
	retire := &cobra.Command{Use: "retire ID", Short: "Retire a device: it drops its identity when it hears of it", Args: args(1), RunE: func(c *cobra.Command, id []string) error {
		return a.device(func(client *api.Client) (api.Device, error) {
			return api.JSON[api.Device](client.RetireDevice(c.Context(), id[0]))
		})
	}}
	move := &cobra.Command{Use: "move ID GROUP", Short: "Move a device to another group, whose config it takes at its next poll", Args: args(2), RunE: func(c *cobra.Command, in []string) error {
		return a.device(func(client *api.Client) (api.Device, error) {
			return api.JSON[api.Device](client.MoveDevice(c.Context(), in[0], api.DeviceMove{Group: in[1]}))
		})
	}}
	action := &cobra.Command{
		Use: "action ID resync|repair|diagnostics|rotate-key|log-level|unenroll", Short: "Order a signed action", Args: args(2),
		Example: `  pinta-manager device action 01M8Q8PK08J9172GVRW4MMX4VD rotate-key
  pinta-manager device action 01M8Q8PK08J9172GVRW4MMX4VD log-level --log-level debug`,
		RunE: func(c *cobra.Command, in []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			o, err := api.JSON[api.ActionState](client.OrderAction(c.Context(), in[0], api.ActionOrder{Kind: api.ActionKind(in[1]), LogLevel: api.LogLevel(level)}))
			if err != nil {
				return missing(err, "device", "device list")
			}
			return a.print(o, func(w io.Writer) {
				fmt.Fprintf(w, "action %s (%s) is delivered with the next report, until %s\n", o.ID, o.Kind, when(o.ExpiresAt))
			})
		},
	}
	action.Flags().StringVar(&level, "log-level", "", "with log-level: debug, info, warn or error")
	return parent("device", "Devices", list, show, retire, move, action)
}

// devices reads all pages.
func (a *app) devices(ctx context.Context, group string) ([]api.Device, error) {
	client, err := a.client()
	if err != nil {
		return nil, err
	}
	all := []api.Device{}
	for p := (api.ListDevicesParams{Group: group, Limit: 1000}); ; {
		page, err := api.JSON[api.DevicePage](client.ListDevices(ctx, p))
		if err != nil {
			return nil, err
		}
		all = append(all, page.Devices...)
		if p.After = page.Next; p.After == "" {
			return all, nil
		}
	}
}

func (a *app) device(call func(*api.Client) (api.Device, error)) error {
	client, err := a.client()
	if err != nil {
		return err
	}
	d, err := call(client)
	if err != nil {
		return missing(err, "device", "device list")
	}
	return a.print(d, func(w io.Writer) { showDevice(w, d) })
}

func showDevice(w io.Writer, d api.Device) {
	config := ""
	if d.ConfigState != "" {
		config = strings.TrimSpace(fmt.Sprintf("version %d %s %s", d.ConfigVersion, d.ConfigState, oneLine(d.ConfigReason, 200)))
	}
	fields(w,
		"device", d.DeviceID, "state", string(d.State), "group", d.Group, "host", oneLine(d.Hostname, 255),
		"system", oneLine(strings.TrimSpace(d.Os+" "+d.OsVersion+" "+d.Arch), 200), "agent", oneLine(d.AgentVersion, 64), "machine", oneLine(d.MachineHint, 255),
		"token", d.TokenID, "reason", string(d.Reason), "enrolled", when(d.EnrolledAt), "seen", ago(d.LastSeen), "config", config,
		"may replace", strings.Join(d.Replaces, ", "))
	if !d.RetiredAt.IsZero() {
		fields(w, "retired", when(d.RetiredAt))
	}
	if !d.CloneSeen.IsZero() {
		fields(w, "clone seen", when(d.CloneSeen))
	}
	if len(d.Report.Users) > 0 {
		var rows [][]string
		for _, u := range d.Report.Users {
			rows = append(rows, []string{oneLine(u.Name, 40), string(u.Hook), ago(u.LastEvent), dash(oneLine(u.Detail, 80))})
		}
		fmt.Fprintln(w)
		table(w, "USER\tHOOK\tLAST EVENT\tDETAIL", rows)
	}
	if len(d.Actions) > 0 {
		var rows [][]string
		for _, o := range d.Actions {
			rows = append(rows, []string{o.ID, string(o.Kind), string(o.State), when(o.OrderedAt), dash(oneLine(o.Detail, 80))})
		}
		fmt.Fprintln(w)
		table(w, "ACTION\tKIND\tSTATE\tORDERED\tDETAIL", rows)
	}
	for _, f := range d.Report.Findings {
		fmt.Fprintf(w, "\nfinding: %s", oneLine(f, 300))
	}
	if len(d.Report.Findings) > 0 {
		fmt.Fprintln(w)
	}
}
