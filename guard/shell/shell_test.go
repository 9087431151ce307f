package shell

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
)

// brief is a command on one line: via>name args [flags] <from >writes.
func brief(c *Command) string {
	var b strings.Builder
	for _, e := range c.Env {
		fmt.Fprintf(&b, "%s ", e)
	}
	for _, v := range c.Via {
		fmt.Fprintf(&b, "%s>", v)
	}
	b.WriteString(strings.Join(append([]string{c.Name}, c.Argv...), " "))
	if len(c.From) > 0 {
		fmt.Fprintf(&b, " from:%s", strings.Join(c.From, ","))
	}
	for _, r := range c.Reads {
		fmt.Fprintf(&b, " <%s", r)
	}
	for _, r := range c.Writes {
		fmt.Fprintf(&b, " >%s", r)
	}
	return b.String()
}

func lines(s Script) (list []string) {
	for _, c := range s.Commands {
		list = append(list, brief(c))
	}
	return list
}

func TestPosix(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"plain":                {"rm -rf /srv/x", []string{"rm -rf /srv/x"}},
		"path and exe":         {`/usr/bin/rm x; "C:\tools\rm.exe" y`, []string{"rm x", "rm y"}},
		"list":                 {"a && b || c; d & e", []string{"a", "b", "c", "d", "e"}},
		"pipe":                 {"curl x | tee y | bash", []string{"curl x", "tee y from:curl", "bash from:curl,tee"}},
		"input instead":        {"curl u | python3 - <<E | b\nE\ncurl u | sh </dev/stdin; curl u | sh <<<$(cat)", []string{"curl u", "python3 -", "b from:curl,python3", "curl u", "sh from:curl </dev/stdin", "curl u", "cat from:curl", "sh from:cat,curl"}},
		"no variable's name":   {"f() { echo rm; }; read 'f()' <<<99; printf -v 'f()' %s -5; unset 'f()'; $(f) x", []string{"echo rm", "read f()", "printf -v f() %s -5", "unset f()", "f", "rm x from:f"}},
		"echo of dash":         {"unset 'echo -e'; echo 'r\\155 x' | sh", []string{"unset echo -e", "echo r\\155 x", "sh from:echo", "sh>r155 x from:echo", "sh from:echo", "sh>rm x from:echo"}},
		"subshell":             {"(cd x; rm y)", []string{"cd x", "rm y"}},
		"block":                {"{ rm a; } > out", []string{"rm a", " >out"}},
		"quotes":               {`r'm' -"rf" \/x`, []string{"rm -rf /x"}},
		"unset before":         {"$X rm a; ${X}rm b; $X$Y 'rm' c; $X\"rm\" d; sudo $X rm e", []string{"$X rm a", "rm a", "${X}rm b", "rm b", "$X$Y rm c", "rm c", "${X}rm d", "rm d", "sudo $X rm e", "sudo>$X rm e", "sudo>rm e"}},
		"nothing before":       {"$(:) rm a; {,} rm b; <( )rm c", []string{":", "$? rm a from::", "rm a from::", "rm b", "$?rm c", "rm c"}},
		"shell by variable":    {"$SHELL -c 'rm x'; $0 -c 'rm y'", []string{"sh -c rm x", "sh>rm x", "bash -c rm y", "bash>rm y"}},
		"comment ends":         {"echo a # b \\\nrm x", []string{"echo a", "rm x"}},
		"comment ends, f":      {"f() { :; }; echo a # b \\\nrm x # c\\\nrm y", []string{":", "echo a", "rm x", "rm y"}},
		"no comment":           {"(echo 'a'#b; rm x\n)", []string{"echo a#b", "rm x"}},
		"carriage returns":     {"a\r\nb \\\r\nrm x \r# y; rm z", []string{"a", "b \x01", "rm x \x01# y", "rm z"}},
		"no comment, closed":   {"(echo 'a'#b; rm x)", []string{"echo a#b", "rm x"}},
		"no comment, value":    {"(echo $A#b; rm x\n); case x in x) echo ${A}#b; rm y\n;; esac", []string{"echo $A#b", "rm x", "echo $A#b", "rm y"}},
		"no comment, command":  {"(echo $(a)#b; rm x\n)", []string{"a", "echo $?#b from:a", "rm x"}},
		"comment after )":      {"(a)#b; rm x", []string{"a"}},
		"wrong in backquotes":  {"a `'`\nrm x", []string{"", "a $_", "rm x"}},
		"open here-document":   {"A=1 bash <<E\nrm x", []string{"A=1 bash", "bash>rm x"}},
		"not a pattern":        {"!(rm x)", []string{"rm x", "!(rm x)"}},
		"backslash in name":    {`\r\m x`, []string{"rm x"}},
		"ANSI-C quotes":        {`$'\x72m' $'-r\x66' x`, []string{"rm -rf x"}},
		"comment":              {"# rm -rf /\nls # rm", []string{"ls"}},
		"text mentions it":     {`git commit -m "never rm -rf /"`, []string{"git commit -m never rm -rf /"}},
		"echoed only":          {`echo "rm -rf /"`, []string{"echo rm -rf /"}},
		"printed braces":       {"echo {rm,-r} {/x,$Y} | sh; rm -r /y", []string{"echo rm -r /x $Y", "sh from:echo", "rm -r /y"}},
		"braces run":           {"echo {rm,-r} /{x,y} | sh", []string{"echo rm -r /x /y", "sh from:echo", "sh>rm -r /x /y from:echo"}},
		"fields printed":       {"X='  rm   -r  /x '; echo $X | sh", []string{"X=  rm   -r  /x  ", "echo rm -r /x", "sh from:echo", "sh>rm -r /x from:echo"}},
		"nothing printed":      {"X=; $X | sh; $X y", []string{"X= ", "sh", "y"}},
		"bash -c":              {`bash -lc 'rm -rf "/x y"'`, []string{`bash -lc rm -rf "/x y"`, "bash>rm -rf /x y"}},
		"bash -o opt -c":       {`bash -o pipefail -c 'rm x'`, []string{`bash -o pipefail -c rm x`, "bash>rm x"}},
		"nested shells":        {`sh -c "bash -c 'rm x'"`, []string{"sh -c bash -c 'rm x'", "sh>bash -c rm x", "sh>bash>rm x"}},
		"eval":                 {`eval "r""m x"`, []string{"eval rm x", "eval>rm x"}},
		"sudo":                 {"sudo -u root -E rm x", []string{"sudo -u root -E rm x", "sudo>rm x"}},
		"env":                  {"env -i A=1 -u B rm x", []string{"env -i A=1 -u B rm x", "A=1 env>rm x"}},
		"env -S":               {"env -S 'rm -f x'", []string{"env -S rm -f x", "env>rm -f x"}},
		"prefix assignment":    {"A=1 B='2 3' rm x", []string{"A=1 B=2 3 rm x"}},
		"chain of wrappers":    {"nohup nice -n 5 timeout -s KILL 10 rm x", []string{"nohup nice -n 5 timeout -s KILL 10 rm x", "nohup>nice -n 5 timeout -s KILL 10 rm x", "nohup>nice>timeout -s KILL 10 rm x", "nohup>nice>timeout>rm x"}},
		"command -v":           {"command -v rm", []string{"command -v rm"}},
		"exec":                 {"exec rm x", []string{"exec rm x", "exec>rm x"}},
		"xargs":                {"ls | xargs -n 1 rm -f", []string{"ls", "xargs -n 1 rm -f from:ls", "xargs>rm -f from:ls"}},
		"xargs of known text":  {"echo /a /b | xargs rm", []string{"echo /a /b", "xargs rm from:echo", "xargs>rm /a /b from:echo"}},
		"find -exec":           {`find / -name x -exec rm -f {} \; -exec ls {} +`, []string{`find / -name x -exec rm -f {} ; -exec ls {} +`, "find>rm -f {}", "find>ls {}"}},
		"here-document":        {"bash <<'E'\nrm x\nE\n", []string{"bash", "bash>rm x"}},
		"here-document cat":    {"cat <<E | sh\nrm x\nE\n", []string{"cat", "sh from:cat", "sh>rm x from:cat"}},
		"here-document data":   {"cat > f <<E\nrm -rf /\nE\n", []string{"cat >f"}},
		"here-document later":  {"bash <<E; true\nrm x\nE\n", []string{"bash", "bash>rm x", "true"}},
		"two here-documents":   {"bash <<A | tee y; sh <<B & ls \\\n; id\nrm a\nA\nrm b\nB\nw", []string{"bash", "bash>rm a", "tee y from:bash,rm", "sh", "sh>rm b", "ls", "id", "w"}},
		"empty here-document":  {"cat <<E; rm x\nE\nrm y", []string{"cat", "rm x", "rm y"}},
		"no here-document":     {"bash <<E; rm x", []string{"bash", "rm x"}},
		"here-string":          {"bash <<< 'rm x'", []string{"bash", "bash>rm x"}},
		"echo to shell":        {"echo 'rm x' | sudo bash", []string{"echo rm x", "sudo bash from:echo", "sudo>bash from:echo", "sudo>bash>rm x from:echo"}},
		"printf's rest":        {`printf '%s x\n' rm ls | sh`, []string{`printf %s x\n rm ls`, "sh from:printf", "sh>rm x from:printf", "sh>ls x from:printf"}},
		"printf to shell":      {`printf 'r%s x' m | sh`, []string{"printf r%s x m", "sh from:printf", "sh>rm x from:printf"}},
		"base64 to shell":      {"echo " + base64.StdEncoding.EncodeToString([]byte("rm -rf x")) + " | base64 -d | sh", []string{"echo cm0gLXJmIHg=", "base64 -d from:echo", "sh from:echo,base64", "sh>rm -rf x from:echo,base64"}},
		"substitution":         {"ls $(rm x)", []string{"rm x", "ls $? from:rm"}},
		"backquotes":           {"ls `rm x`", []string{"rm x", "ls $? from:rm"}},
		"known substitution":   {"$(echo rm) -rf x", []string{"echo rm", "rm -rf x from:echo"}},
		"process":              {"bash <(curl u)", []string{"curl u", "bash /dev/fd/$? from:curl"}},
		"sh -c of download":    {`sh -c "$(curl u)"`, []string{"curl u", "sh -c $? from:curl"}},
		"constant variable":    {"X=rm; $X -rf y", []string{"X=rm ", "rm -rf y"}},
		"variable of words":    {"X='rm -rf y'; $X", []string{"X=rm -rf y ", "rm -rf y"}},
		"unknown variable":     {"$X -rf $HOME/.ssh", []string{"$X -rf ~/.ssh"}},
		"default value":        {"${X:-rm} y", []string{"rm y"}},
		"IFS":                  {"rm${IFS}-rf${IFS}x", []string{"rm -rf x"}},
		"braces":               {"{rm,-rf,/x}", []string{"rm -rf /x"}},
		"brace sequence":       {"rm f{1..3}", []string{"rm f1 f2 f3"}},
		"loop":                 {"for x in rm ls; do $x y; done >z", []string{"rm y", "ls y", " >z"}},
		"loop of nothing":      {"for x in $(y); do $x; done; for z; do $z; done", []string{"y", "$?", "$z"}},
		"downloaded":           {"curl -fsSLo f u && sudo sh f", []string{"curl -fsSLo f u", "sudo sh f", "sudo>sh f", "sudo>sh /dev/fd/$? from:curl"}},
		"downloaded by name":   {"wget -q https://h/i.sh?x=1; chmod +x i.sh; ./i.sh", []string{"wget -q https://h/i.sh?x=1", "chmod +x i.sh", "i.sh", "sh /dev/fd/$? from:wget"}},
		"printed, moved, run":  {"curl u >a; mv a b; /bin/python3 -u b", []string{"curl u >a", "mv a b", "python3 -u b", "python3 /dev/fd/$? from:curl"}},
		"branches":             {"if a; then X=rm; else X=ls; fi; $X y", []string{"a", "X=rm ", "X=ls ", "ls y", "rm y"}},
		"branch not taken":     {"if a; then R=echo; fi; $R rm x", []string{"a", "R=echo ", "echo rm x", "$R rm x", "rm x"}},
		"value if true":        {"X=rm; a && X=ls; $X y", []string{"X=rm ", "a", "X=ls ", "ls y", "rm y"}},
		"else has its own":     {"X=rm; if a; then X=ls; else $X y; fi", []string{"X=rm ", "a", "X=ls ", "rm y"}},
		"subshell's value":     {"X=rm; (X=ls); b | X=ls; $X y", []string{"X=rm ", "X=ls ", "b", "X=ls  from:b", "ls y", "rm y"}},
		"both values":          {"case a in a) X=rm;; *) X=ls;; esac; case b in b) Y=/;; *) Y=.;; esac; $X $Y", []string{"X=rm ", "X=ls ", "Y=/ ", "Y=. ", "ls .", "ls .", "ls /", "rm .", "rm /"}},
		"next round":           {"while a; do $X y; X=rm; done", []string{"a", "$X y", "y", "X=rm ", "a", "rm y", "$X y", "y", "X=rm "}},
		"or left before":       {"for X in rm ls; do a && break; done; $X y", []string{"a", "break", "a", "break", "ls y", "rm y", "$X y", "y"}},
		"or left unseen":       {"for a in b; do X=rm; eval break; X=ls; done; $X y", []string{"X=rm ", "eval break", "eval>break", "X=ls ", "ls y", "rm y", "$X y", "y"}},
		"not empty by then":    {"N=${1:-}; [ -z \"$N\" ] && { u; exit 1; }; rm /srv/$N", []string{"N= ", "[ -z  ]", "u", "exit 1", "rm /srv/$N"}},
		"not empty or left":    {"N=; test -n \"${N:-}\" || exit; rm /srv/$N", []string{"N= ", "test -n ", "exit", "rm /srv/$N"}},
		"not empty within":     {"N=; if [[ $N ]]; then rm /srv/$N; else ls /$N; fi; rm /$N", []string{"N= ", "rm /srv/$N", "ls /", "rm /", "rm /$N"}},
		"empty within":         {"if a; then N=b; else N=; fi; [ ! \"$N\" ] || rm /$N; ! [ \"$N\" ] && ls /$N", []string{"a", "N=b ", "N= ", "[ !  ]", "[ ! b ]", "rm /b", "[ b ]", "[  ]", "ls /"}},
		"exit that goes on":    {"exit() { :; }; N=; [ -z \"$N\" ] && exit; rm /srv/$N", []string{":", "N= ", "[ -z  ]", "exit", "rm /srv/"}},
		"exit with two":        {"N=; [ -z \"$N\" ] && exit 1 2; rm /srv/$N", []string{"N= ", "[ -z  ]", "exit 1 2", "rm /srv/"}},
		"test that is another": {"test() { :; }; N=; test -n \"$N\" || exit; rm /srv/$N", []string{":", "N= ", "test -n ", "exit", "rm /srv/"}},
		"not exported":         {"X=echo; bash -c '$X rm'", []string{"X=echo ", "bash -c $X rm", "bash>echo rm", "bash>$X rm", "bash>rm"}},
		"exported":             {"export X=echo; bash -c '$X rm'", []string{"X=echo export X=echo", "bash -c $X rm", "bash>echo rm"}},
		"unset":                {"X=echo; unset X; $X rm", []string{"X=echo ", "unset X", "$X rm", "rm"}},
		"local":                {"X=rm; f() { local X=ls; $X; }; f; $X y", []string{"X=rm ", "X=ls local X=ls", "ls", "f", "X=ls local X=ls", "ls", "rm y"}},
		"set by a function":    {"f() { X=rm; }; X=ls; f; $X y", []string{"X=rm ", "X=ls ", "f", "X=rm ", "rm y"}},
		"function of a branch": {"if a; then f() { $1 x; }; else f() { ls $1; }; fi; f rm", []string{"a", "$1 x", "x", "ls $1", "f rm", "rm x", "ls rm"}},
		"read from elsewhere":  {"X=echo; read X <f; $X rm; a | while read -r X; do $X rm; done", []string{"X=echo ", "read X <f", "$X rm", "rm", "a", "read -r X from:a", "$X rm from:a", "rm from:a"}},
		"read in part":         {"read X Y <<<\"$(a) rm\"; $Y b", []string{"a", "read X Y from:a", "rm b", "$Y b", "b"}},
		"alternative":          {"${R:+echo} rm x", []string{"$R rm x", "rm x", "rm x", "echo rm x"}},
		"counted":              {"for i in {1..900}; do a $i; done; b {1..3}", []string{"a 1", "b 1 2 3"}},
		"read each line":       {"while read x y; do $x $y; done <<E\na b c\nd\nE", []string{"read x y", "a b c", "read x y", "d $y"}},
		"arguments apart":      {"f() { rm \"$@\" x; g \"$*\" $@ \"p$@q\"; }; f 'a b' c", []string{"rm $@ x", "g $* $@ p$@q", "f a b c", "rm a b c x", "g a b c a b c pa b cq"}},
		"NUL between":          {"printf '%s\\0' /a /b | xargs -0 rm", []string{"printf %s\\0 /a /b", "xargs -0 rm from:printf", "xargs>rm /a /b from:printf"}},
		"conditions":           {"if a; then b; elif c; then d; else e; fi; while f; do g; done", []string{"a", "b", "c", "d", "e", "f", "g"}},
		"case":                 {"case x in a) rm a;; *) rm b;; esac", []string{"rm a", "rm b"}},
		"function":             {"f() { rm x; }; f", []string{"rm x", "f"}},
		"test clause":          {"[[ -n $(rm x) ]]", []string{"rm x"}},
		"arithmetic":           {"(( $(rm x) ))", []string{"rm x"}},
		"declare":              {"export PINTA_X=1", []string{"PINTA_X=1 export PINTA_X=1"}},
		"bare assignment":      {"PINTA_X=1", []string{"PINTA_X=1 "}},
		"redirections":         {"a <b >c 2>>d 2>&1", []string{"a <b >c >d"}},
		"time, not, coproc":    {"time ! rm x", []string{"time ! rm x", "time>rm x"}},
		"trap":                 {"trap 'rm x' EXIT", []string{"trap rm x EXIT", "trap>rm x"}},
		"ssh":                  {"ssh -p 22 host rm -rf /x", []string{"ssh -p 22 host rm -rf /x", "ssh>rm -rf /x"}},
		"su -c":                {"su - root -c 'rm x'", []string{"su - root -c rm x", "su>rm x"}},
		"powershell inside":    {`pwsh -NoProfile -Command "Remove-Item -Recurse x"`, []string{"pwsh -NoProfile -Command Remove-Item -Recurse x", "pwsh>remove-item -Recurse x"}},
		"split braces":         {"for i in 1 2; do f() { a {b,c} $1; }; f d; done; case x in {a,b}) ;; esac", []string{"a b c $1", "f d", "a b c d", "a b c $1", "f d", "a b c d"}},
		"quoted declaration":   {"export \"A=rm\" 'B=c'; $A $B", []string{"A=rm B=c export A=rm B=c", "rm c"}},
		"set without dashes":   {"set -o errexit rm x; \"$@\"; set - ls y; $1 $2", []string{"set -o errexit rm x", "rm x", "set - ls y", "ls y"}},
		"cluster ends in o":    {"bash -ceuo pipefail 'rm x'; bash -euo pipefail -c 'rm y'", []string{"bash -ceuo pipefail rm x", "bash>rm x", "bash -euo pipefail -c rm y", "bash>rm y"}},
		"parted operators":     {": \"$\\\n\\\n(rm x)\"; <\\\n<E cat\n'\nE\nrm y # $\\\n(rm z)", []string{"rm x", ": $? from:rm", "cat", "rm y", "rm z"}},
		"other fields":         {"IFS=,; X=rm,x; $X", []string{"IFS=, ", "X=rm,x ", "rm x"}},
		"other descriptors":    {"bash /dev/fd/3 3<<< 'rm x'; . /proc/self/fd/0 <<< 'rm y'", []string{"bash /dev/fd/3", "bash>rm x", ". /proc/self/fd/0", ".>rm y"}},
		"element before":       {"A[1]= rm x\nA[1]+=2 B=3 rm y", []string{"rm x", "rm y"}},
		"file named return":    {"ls >| \r\n rm x", []string{"ls >\x01", "rm x"}},
		"before an error":      {"rm -rf x\n)\nls", []string{"rm -rf x", "ls"}},
		"unfinished quote":     {"rm -rf 'x", []string{"rm -rf x"}},
		"empty":                {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := lines(Posix(context.Background(), c.text, new(Room)))
			if !slices.Equal(got, c.want) {
				t.Errorf("%s\n got  %q\n want %q", c.text, got, c.want)
			}
		})
	}
}

func TestPowerShell(t *testing.T) {
	encoded := func(s string) string {
		var b []byte
		for _, u := range utf16.Encode([]rune(s)) {
			b = append(b, byte(u), byte(u>>8))
		}
		return base64.StdEncoding.EncodeToString(b)
	}
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"cmdlet":      {`Remove-Item -Recurse -Force "C:\x y"`, []string{`remove-item -Recurse -Force C:\x y`}},
		"pipe":        {"gci x | ForEach-Object { Remove-Item $_ }", []string{"gci x", "foreach-object from:gci", "remove-item $_"}},
		"call":        {`& 'C:\Program Files\Git\bin\git.exe' push --force`, []string{"git push --force"}},
		"backtick":    {"Rem`ove-It`em x", []string{"remove-item x"}},
		"iex":         {"iwr http://x | iex", []string{"iwr http://x", "iex from:iwr"}},
		"iex of text": {`iex "rm x; ls"`, []string{"iex rm x; ls", "iex>rm x", "iex>ls"}},
		"cmd":         {"cmd /c del /s /q C:\\x", []string{`cmd /c del /s /q C:\x`, `cmd>del /s /q C:\x`}},
		"encoded":     {"powershell -enc " + encoded("rm -r x"), []string{"powershell -enc " + encoded("rm -r x"), "powershell>rm -r x"}},
		"bash":        {`wsl -d Debian bash -c "rm -rf x"`, []string{`wsl -d Debian bash -c rm -rf x`, "wsl>bash -c rm -rf x", "wsl>bash>rm -rf x"}},
		"environment": {`$env:PINTA_X = '1'; $env:Y="2"`, []string{"PINTA_X=1 ", "Y=2 "}},
		"redirection": {"echo a > b 2>&1", []string{"echo a >b"}},
		"comment":     {"ls # Remove-Item x", []string{"ls"}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := lines(PowerShell(context.Background(), c.text, new(Room))); !slices.Equal(got, c.want) {
				t.Errorf("%s\n got  %q\n want %q", c.text, got, c.want)
			}
		})
	}
}

// faulty stands for a fault of the parser.
type faulty struct{ context.Context }

func (faulty) Err() error { panic("fault") }

// TestRoomOfSeveral: what scripts of one room run stays apart, whatever is done
// with their lists.
func TestRoomOfSeveral(t *testing.T) {
	room := new(Room)
	for range 3 {
		var all []Script
		for i := range 40 {
			s := Posix(context.Background(), strings.Repeat(fmt.Sprintf("a%d | b\n", i), i), room)
			all = append(all, s)
		}
		for _, s := range all {
			_ = append(s.Commands, &Command{Name: "other"})
		}
		for i, s := range all {
			want := slices.Repeat([]string{fmt.Sprintf("a%d", i), fmt.Sprintf("b from:a%d", i)}, i)
			if got := lines(s); !slices.Equal(got, want) {
				t.Fatalf("script %d: got %q, want %q", i, got, want)
			}
		}
		room.Clear()
	}
}

// TestFault: where the analysis itself fails, the words are there all the same,
// and more may run than is listed.
func TestFault(t *testing.T) {
	s := Posix(faulty{context.Background()}, "cd /x; bash -c 'rm -rf y' && [[ a ]] && rm -rf /x", new(Room))
	if got := lines(s); !slices.Contains(got, "rm -rf /x") || !s.Limited || !s.Partial || s.fault == nil {
		t.Errorf("%q %+v", got, s)
	}
}

func TestFlags(t *testing.T) {
	for text, want := range map[string][]string{
		"rm -rf x":                   {"r", "f", "rf"},
		"rm --recursive --force=x":   {"recursive", "force"},
		"rm -r -- -f":                {"r"},
		"terraform -auto-approve":    {"a", "u", "t", "o", "auto-approve"},
		"git push -f":                {"f"},
		"find -name=x":               {"n", "a", "m", "e", "name"},
		"tar -xzf a.tgz -C /":        {"x", "z", "f", "xzf", "C"},
		"head -5 x":                  {"5"},
		"del /s /q x":                {"s", "q"},
		"ls /s":                      nil,
		"cat - ":                     nil,
		"rsync --delete-after -avz.": {"delete-after", "a", "v", "z", "avz."},
	} {
		t.Run(text, func(t *testing.T) {
			if got := new(Room).command(strings.Fields(text)).Flags; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// TestHostile: deep and wide texts end quickly and never overflow the stack.
func TestHostile(t *testing.T) {
	const n = 1 << 18
	for name, text := range map[string]string{
		"parentheses":         strings.Repeat("(", n),
		"substitutions":       strings.Repeat("$(", n/2),
		"nested echo":         strings.Repeat("$(echo ", 2000) + "rm" + strings.Repeat(")", 2000),
		"braces":              strings.Repeat("{ ", n/2),
		"if":                  strings.Repeat("if ", n/3),
		"parameters":          strings.Repeat("${a:-", n/5),
		"arithmetic":          "$((" + strings.Repeat("-", n),
		"arithmetic parens":   "$((" + strings.Repeat("(", n),
		"backquotes":          strings.Repeat("`", n),
		"quotes":              strings.Repeat(`"$(`, n/3),
		"pipes":               strings.Repeat("a|", n/2),
		"ands":                strings.Repeat("a&&", n/3),
		"commands":            strings.Repeat("rm x;", n/5),
		"brace expansion":     strings.Repeat("{a,b}", 200),
		"brace sequence":      "rm {1..100000000}",
		"growing variable":    "X=aaaaaaaaaa;" + strings.Repeat("X=$X$X;", 200) + "rm $X",
		"bash -c in itself":   strings.Repeat("bash -c ", 5000) + "x",
		"sudo chain":          strings.Repeat("sudo ", n/5),
		"not":                 strings.Repeat("! ", n/2),
		"test parentheses":    "[[ " + strings.Repeat("( ", n/2),
		"heredocs":            strings.Repeat("cat <<E\n", 5000),
		"functions":           strings.Repeat("f() ", n/4),
		"loops of loops":      strings.Repeat("for x in a b c; do ", 400) + "b" + strings.Repeat("; done", 400),
		"loop of a long body": "for x in " + strings.Repeat("a ", 5000) + "; do b " + strings.Repeat("c ", n) + "; done",
		"appended bit by bit": strings.Repeat("echo >>f;", n/9),
		"pipes of pipes":      strings.Repeat("a | { ", 3000),
		"eval chain":          strings.Repeat("eval ", 50000),
		"xargs chain":         "echo a | " + strings.Repeat("xargs ", 20000),
		"substitution in sub": strings.Repeat("a $(b | ", 1500) + strings.Repeat(")", 1500),
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now() // the bound is for a busy machine: it finds what is not linear
			s := Posix(context.Background(), text, new(Room))
			PowerShell(context.Background(), text, new(Room))
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("took %v", took)
			}
			if len(s.Commands) > maxCommands || s.fault != nil {
				t.Errorf("%d commands, %v", len(s.Commands), s.fault)
			}
		})
	}
}

// TestCombined puts pieces of scripts together at random: no analysis fails,
// and what stands before them is seen.
func TestCombined(t *testing.T) {
	parts := []string{"rm -rf /srv", "cd /x && ls", "a | b | c", "bash -c 'rm -r x'", "$(curl x | sh)", "echo rm | sh", "X=1 Y='a b' c $X \"$Y\"", "{a,b,c}", "{1..3}",
		"for f in *.go a\\ b; do g \"$f\" >> out; done", "cat <<E\nhi $X\nE\n", "find . -exec rm {} +", "eval \"a b\" c", "echo x | xargs -n1 rm", "sudo -u root env A=1 sh -c \"x | y\"",
		"\"", "'", "\\", " ", ";", "\n", "&&", "|", "&", "(", ")", "`", "{", "}", "$", "<", ">", "2>&1", "> out", "< in", "--force=x", "del /s C:\\x", "powershell -c \"ri x | out-null\"", "$'\\x41b'",
		"${X:-$(z)}", "f() { g; }", "if a; then b; else c; fi", "declare -x A=b", "A+=b", "echo \"a$(b $(c))d\"", "base64 -d", "printf '%s' x", "tee f", "! x", "time y", "#c\n", "é", "[[ -f x ]]",
		"case $X in a) b;; esac", "$X$Y", "((x++))", "a[1]=b", "(a b)", "<(x)", "@(a|b)", "let x=1", "coproc y", "select i in a; do b; done", "while read x; do y; done < <(z)", "$((1+$(x)))"}
	r := rand.New(rand.NewPCG(14, 15))
	for range 5000 {
		var b strings.Builder
		for range 1 + r.IntN(12) {
			b.WriteString(parts[r.IntN(len(parts))])
			b.WriteString([]string{"", " ", " | ", "; "}[r.IntN(4)])
		}
		if s := Posix(context.Background(), b.String(), new(Room)); s.fault != nil {
			t.Fatalf("%q: %v", b.String(), s.fault)
		}
		PowerShell(context.Background(), b.String(), new(Room))
		first := Posix(context.Background(), "rm -rf /first\n"+b.String(), new(Room))
		if c := first.Commands[0]; c.Name != "rm" || len(c.Args) != 1 {
			t.Fatalf("%q: the first command is %+v", b.String(), c)
		}
	}
}

// TestRoom: what was in a room before shows in nothing that is put into it later, whatever the sizes.
func TestRoom(t *testing.T) {
	var texts []string
	for n := 1; n < 6000; n = n*3 + 1 {
		texts = append(texts, strings.Repeat("sudo A=1 rm -rf \"$x\" /a/b <in >out | tee -a 'c d' && ", n)+"true", "ls -l a b c", "Remove-Item -Recurse x", "")
	}
	all := func(room *Room) (list []string) {
		for _, text := range texts {
			for _, s := range []Script{Posix(context.Background(), text, room), PowerShell(context.Background(), text, room)} {
				for _, c := range s.Commands {
					list = append(list, fmt.Sprintf("%+v", *c))
				}
			}
			room.Clear()
		}
		return list
	}
	var used Room
	want := all(&used)
	for range 3 {
		if got := all(&used); !slices.Equal(got, want) {
			t.Fatal("a room that was used gives other commands")
		}
	}
	if n := len(used.commands.all) + len(used.words.all); n > 40 {
		t.Errorf("%d arrays are kept", n)
	}
	for _, chunk := range used.words.all {
		if strings.Join(chunk, "") != "" {
			t.Fatal("a word is kept")
		}
	}
}

// TestRunsInTurn: each of these runs rm, however it says so.
func TestRunsInTurn(t *testing.T) {
	for _, text := range []string{
		"coproc rm -rf /x", "coproc X { rm -rf /x; }", "! rm -rf /x", "time rm -rf /x", "time -p rm -rf /x", "[[ -n $(rm -rf /x) ]]", "(( $(rm -rf /x) ))",
		"let a=$(rm -rf /x)", "a[$(rm -rf /x)]=1", "arr=(a $(rm -rf /x))", "declare -a q=($(rm -rf /x))", "case $(rm -rf /x) in a) ;; esac",
		"case a in $(rm -rf /x)) ;; esac", "select i in $(rm -rf /x); do :; done", "for ((i=$(rm -rf /x);;)); do :; done", "f() { rm -rf /x; }; f",
		"function f { rm -rf /x; }", "trap 'rm -rf /x' EXIT", "bash -c \"$(cat <<'E'\nrm -rf /x\nE\n)\"", "cat <<'E' | bash\nrm -rf /x\nE",
		"bash < <(echo rm -rf /x)", "source <(echo rm -rf /x)", ". <(echo rm -rf /x)", "bash <(echo rm -rf /x)", "bash <(printf 'rm -rf %s' /x)",
		"eval $(echo rm -rf /x)", "`echo rm` -rf /x", "$(echo rm) -rf /x", "a=rm; $a -rf /x", "a=r; ${a}m -rf /x", "a='rm -rf /x'; $a",
		"a='rm -rf /x'; eval \"$a\"", "a='rm -rf /x'; bash -c \"$a\"", "${x:-rm} -rf /x", "${x:=rm} -rf /x", "X=rm; ${X,,} -rf /x", "X=RM; ${X,,} -rf /x",
		"rm${IFS}-rf${IFS}/x", "r\\\nm -rf /x", "\"r\"'m' -rf /x", "command rm -rf /x", "builtin eval rm -rf /x", "env rm -rf /x",
		"xargs -I{} rm -rf {} <<< /x", "xargs rm -rf <<< /x", "echo /x | xargs -I % sh -c 'rm -rf %'", "find . -exec sh -c 'rm -rf /x' \\;",
		"parallel rm -rf ::: /x", "nohup rm -rf /x &", "setsid -f rm -rf /x", "script -qc 'rm -rf /x' /dev/null", "ssh localhost rm -rf /x",
		"docker run -v /:/h alpine rm -rf /h", "docker exec c rm -rf /x", "kubectl exec p -- rm -rf /x", "su -c 'rm -rf /x'", "su - root -c 'rm -rf /x'",
		"sudo -s -- rm -rf /x", "sudo sh -c 'rm -rf /x'", "sudo bash <<E\nrm -rf /x\nE", "watch -n1 'rm -rf /x'", "timeout 5 rm -rf /x",
		"flock /tmp/l rm -rf /x", "flock /tmp/l -c 'rm -rf /x'", "at now <<< 'rm -rf /x'", "echo 'rm -rf /x' | at now",
		"crontab - <<< '* * * * * rm -rf /x'", "echo cm0gLXJmIC94 | base64 -d | bash", "base64 -d <<< cm0gLXJmIC94 | sh",
		"bash <<< $(base64 -d <<< cm0gLXJmIC94)", "echo -e 'rm\\x20-rf /x' | sh", "printf '\\x72m -rf /x' | sh", "printf '%s ' rm -rf /x | sh",
		"xxd -r -p <<< 726d202d7266202f78 | sh", "alias x='rm -rf /x'; x", "bash -c 'rm -rf \"$0\"' /x", "bash -c '$0 -rf /x' rm",
		"bash -c '\"$@\"' _ rm -rf /x", "set -- rm -rf /x; \"$@\"", "exec -a ls rm -rf /x", "exec 3>&1 rm -rf /x", ">/dev/null rm -rf /x", "2>&1 rm -rf /x",
		"{rm,-rf,/x}", "if rm -rf /x; then :; fi", "until rm -rf /x; do :; done", "while :; do rm -rf /x; done", "a=$(rm -rf /x)", "echo \"$(rm -rf /x)\"",
		"echo \"`rm -rf /x`\"", "echo ${x:-$(rm -rf /x)}", "echo $(( `rm -rf /x` ))", "cat <<E\n$(rm -rf /x)\nE\n", "stdbuf -oL rm -rf /x",
		"busybox rm -rf /x", "toybox rm -rf /x", "ld.so /bin/rm -rf /x", "/lib64/ld-linux-x86-64.so.2 /bin/rm -rf /x", "doas rm -rf /x",
		"runuser -u root -- rm -rf /x", "unshare -r rm -rf /x", "nsenter -t 1 -m rm -rf /x", "chroot / rm -rf /x", "ionice -c3 rm -rf /x",
		"npx -c 'rm -rf /x'", "bash -O extglob -c 'rm -rf /x'", "bash --norc -c 'rm -rf /x'", "bash -ec 'rm -rf /x'", "sh -c -- 'rm -rf /x'",
		"zsh -c 'rm -rf /x'", "fish -c 'rm -rf /x'", "pwsh -c 'rm -rf /x'", "entr rm -rf /x <<< a", "tmux new -d 'rm -rf /x'", "screen -dm rm -rf /x",
		"systemd-run rm -rf /x", "wsl rm -rf /x", "wsl -- rm -rf /x", "wsl -e rm -rf /x", "nix-shell --run 'rm -rf /x'", "guix shell -- rm -rf /x",
		"conda run rm -rf /x", "poetry run rm -rf /x", "uv run rm -rf /x", "bundle exec rm -rf /x", "npm exec -- rm -rf /x", "direnv exec . rm -rf /x",
		"aws-vault exec p -- rm -rf /x", "op run -- rm -rf /x", "chronic rm -rf /x", "faketime x rm -rf /x", "strace -f rm -rf /x", "gdb --args rm -rf /x",
		"valgrind rm -rf /x", "perf stat rm -rf /x", "hyperfine 'rm -rf /x'", "cpulimit -l 5 rm -rf /x", "sg root 'rm -rf /x'", "sg root -c 'rm -rf /x'",
		"lxc exec c -- rm -rf /x", "podman exec c rm -rf /x", "vagrant ssh -c 'rm -rf /x'", "mosh h -- rm -rf /x",
		"cat > x.sh <<'E'\nrm -rf /x\nE\nchmod +x x.sh && ./x.sh", "echo rm -rf /x > x.sh; sudo bash -e ./x.sh",
		"echo rm | tee y; printf ' -rf /x' >> y; . ./y", "docker compose exec db rm -rf /x", "kubectl -n prod exec -it p -c web -- rm -rf /x",
		"docker run --rm -v /:/h alpine rm -rf /h", "x=a; y=x; x=rm; ${!y} -rf /x", "x=xrm; ${x#x} -rf /x", "x=am; ${x/a/r} -rf /x",
		"$(echo cm0K | base64 -d) -rf /x", "tmux send-keys -t w 'rm -rf /x' Enter",
		"if false; then sudo() { echo \"$1\"; }; fi; sudo rm x", "env --split-string='rm -rf /x'", "f() { \"$@\"; }; f rm x", "f() { $1 x; }; f rm", "f() { eval \"$*\"; }; f rm x", "{ echo 'rm x'; } | sh", "(echo 'rm x') | sh", "{ echo -n 'r'; echo 'm x'; } | sh",
		"echo 'rm x' > g; cat g | sh", "echo 'rm x' > g; eval \"$(cat g)\"", "cat <(echo 'rm x') | sh", "echo 'rm x' | tee y | sh", "A=(rm x); \"${A[@]}\"", "declare -a A=(rm x); ${A[*]}",
		"read a b <<< 'rm x'; $a $b", "source /dev/stdin <<< 'rm x'", "bash /dev/stdin <<< 'rm x'", "setpriv --reuid 1000 rm x", "linux64 rm x", "for c in ls rm; do $c x; done", "for c in a b; do for d in ls rm; do $d $c; done; done", "while read c; do $c x; done <<< rm", "while read -r c d; do $c x; done <<E\nls\nrm y\nE",
		"echo rm | while read c; do $c; done", "f() { \"$@\"; }; f 'rm' 'a b'", "A=(ls rm); for c in \"${A[@]}\"; do $c; done", "echo 'rm x' | xargs -I{} sh -c '{}'",
		": ${x:=rm}; $x y", "x=rm bash -c '$x y'", "env x=rm sh -c '$x y'", "x=rm eval '$x y'", "f() { $x y; }; x=rm; f", "f() { $x y; }; x=rm f", "printf -v x r%s m; $x y", "time -- rm x",
		"A=(rm x); ${A[0]} y", "A=(rm x); $A y", "A[0]=rm; ${A[0]} y", "mapfile -t A <<< 'rm x'; ${A[0]}", "echo 'rm x' | (read l; $l)", "echo 'rm x' > f; eval \"$(< f)\"",
		"repeat 3 rm -rf /x", "=rm x", "- rm x", `echo "\162m x" | sh`, `echo "rm\tx" | sh`, `eval "$(echo 'r\x6d x')"`,
		"A=(rm); A+=(-rf x); \"${A[@]}\"", "A=(a rm x); \"${A[@]:1}\"", "A=(a rm x b); \"${A[@]:1:2}\"", "set -- a rm x; \"${@:2}\"", "set -- a rm x; shift; \"$@\"", "f() { shift; \"$@\"; }; f a rm x",
		"f() { while [ $# -gt 0 ]; do $1 x; shift; done; }; f ls rm", "f() { while [ $# -gt 0 ]; do case $1 in -*) ;; *) $1 x;; esac; shift; done; }; f -a -b -c -d -e -f rm", "f() { for c; do $c x; done; }; f ls rm", "A[0]=rm; A[1]=x; \"${A[@]}\"", "A=(ls rm); i=1; ${A[i]} x",
		"A=(ls rm); ${A[-1]} x", "A=(ls rm); ${A[0+1]} x", "A=(ls rm); for i in \"${!A[@]}\"; do ${A[$i]} x; done", "declare -A A; A[k]=rm; ${A[k]} x", "declare -A A=([k]=rm); ${A[k]} x",
		"A=([1]=rm); ${A[1]} x", "read -a A <<< 'rm x'; \"${A[@]}\"", "read -rp '? ' c <<< rm; $c x", "read <<< rm; $REPLY x", "IFS=, read -r a b <<< 'rm,x'; $a $b", "IFS=, read a b <<< ',rm'; $b x",
		"mapfile -t < <(printf 'rm\nx\n'); \"${MAPFILE[@]}\"", "case a in a) x=rm ;;& b) $x y ;; a) $x z ;; esac", "set -- -c rm; while getopts c: o; do case $o in c) x=$OPTARG;; esac; done; $x y",
		"f() { echo rm; }; $(f) x", "f() { printf 'rm %s' $1; }; eval \"$(f x)\"", "f() { echo 'rm x'; }; f | sh", "f() { echo 'rm x'; }; . <(f)", "f() { echo ls; }; if a; then f() { echo rm; }; fi; $(f) x",
		"alias r=rm\nr x", "trap '$x y' EXIT; x=rm", "exec 4<<< 'rm x'; sh <&4", "echo 'rm x' > f; exec 5< f; sh <&5", "x=rm; [ -e f ] || echo x=ls > f; . ./f; $x y",
		"{ echo 'rm x'; } > f; . ./f", "(echo 'rm x') > f; . ./f", "echo 'rm x' > f; cp f g; . ./g", "echo 'rm x' > f; mv f g; sh g", "exec 3<<< 'rm x'; . /dev/fd/3",
	} {
		got := Posix(context.Background(), text, new(Room))
		if !slices.ContainsFunc(got.Commands, func(c *Command) bool { return c.Name == "rm" }) {
			t.Errorf("%q: %q", text, lines(got))
		}
	}
}

// TestRunsNot: none of these runs rm.
func TestRunsNot(t *testing.T) {
	for _, text := range []string{
		"f() { echo \"$@\"; }; f rm x", "{ echo rm; } | cat", "A=(rm x); echo \"${A[@]}\"", "read a <<< rm; echo $a", "cat g | sh; echo rm > g",
		"docker build -t exec rm", "kubectl get exec rm", "npm run exec rm", "npm install exec rm", "echo rm > f; cat f", "bash rm.sh rm", "alias ll='ls rm'", "alias rm", "tmux ls rm",
		"uv pip install rm", "crontab -l; crontab rm", "case rm in rm) ;; esac", "cat <<'E'\n$(rm -rf /x)\nE\n", "git commit -m 'docker exec c rm'", "source .venv/bin/rm rm",
		"echo ${x:-rm}", "echo rm > rm; ls", "cat > x.sh <<'E'\nrm -rf /x\nE\nbash y.sh", "bash -c 'echo $0' rm", "bash -c 'echo \"$@\"' _ rm", "set -- rm; echo $1", "set -e rm", "diff <(echo rm) <(ls)",
		"f() { \"$1\" x; }; f \"a; rm\"", "f() { \"$@\"; }; f 'ls rm' x", "for c in rm ls; do echo $c; done", "A=('a rm'); \"${A[*]}\" x", "gdb -ex rm", "perf report rm", "docker ps --filter name=rm", "x=rm; echo ${x^^}", "at -l rm",
	} {
		got := Posix(context.Background(), text, new(Room))
		if slices.ContainsFunc(got.Commands, func(c *Command) bool { return c.Name == "rm" }) {
			t.Errorf("%q: %q", text, lines(got))
		}
	}
}

func FuzzPosix(f *testing.F) {
	for _, s := range []string{"rm -rf /", "bash -c 'a | b'", "cat <<E\nx\nE\n", "${a:-$(b)}", "find . -exec rm {} +", "a() { b; }; a", "$'\\x41'",
		"echo {rm,-r} {/,$x} | sh", "printf '%s {1..3}' a{b,c} >{d,e} | base64 -d | xargs x", "X={a,b} for i in {a,$(b)}; do $i; done"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s := Posix(context.Background(), text, new(Room)); len(s.Commands) > maxCommands || s.fault != nil {
			t.Errorf("%d commands, %v", len(s.Commands), s.fault)
		}
		PowerShell(context.Background(), text, new(Room))
		var used Room
		Posix(context.Background(), "sudo -E A=1 env rm -rf a b c <x >y | tee z\n", &used)
		used.Clear()
		if got, want := Posix(context.Background(), text, &used), Posix(context.Background(), text, new(Room)); fmt.Sprintf("%+v", values(got)) != fmt.Sprintf("%+v", values(want)) {
			t.Errorf("in a room that was used:\n%+v\nin a new one:\n%+v", values(got), values(want))
		}
	})
}

func values(s Script) (list []Command) {
	for _, c := range s.Commands {
		list = append(list, *c)
	}
	return list
}

func BenchmarkPosix(b *testing.B) {
	line := `cd /srv/app && git log --oneline -5 | head -3; for f in *.go; do gofmt -l "$f" >> out.txt; done` + "\n"
	for _, size := range []int{200, 4 << 10, 64 << 10} {
		text := strings.Repeat(line, size/len(line)+1)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				Posix(context.Background(), text, new(Room))
			}
		})
	}
}

// TestApart: an argument with blanks stays one.
func TestApart(t *testing.T) {
	for text, want := range map[string][]string{
		`f() { rm "$@"; }; f 'a b' c`:                         {"a b", "c"},
		`f() { rm $@; }; f 'a b' c`:                           {"a", "b", "c"},
		`f() { rm "$*"; }; f 'a b' c`:                         {"a b c"},
		`f() { rm "x$@y"; }; f 'a b' c`:                       {"xa b", "cy"},
		`f() { x="$@"; rm "$x"; }; f 'a b' c`:                 {"a b c"},
		`A=('a b' c); rm "${A[@]}"`:                           {"a b", "c"},
		`A=('a b' c); rm "${A[*]}" ${A[*]}`:                   {"a b c", "a", "b", "c"},
		`set -- 'a b'; rm "${@}"`:                             {"a b"},
		`bash -c 'rm "$@"' _ 'a b' c`:                         {"a b", "c"},
		`f() { for x in "$@"; do rm "$x"; done; }; f a 'b c'`: {"a", "b c"},
	} {
		var got []string
		for _, c := range Posix(context.Background(), text, new(Room)).Commands {
			if c.Name == "rm" && !strings.Contains(strings.Join(c.Argv, ""), "$") {
				got = append(got, c.Argv...)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// TestCounted: a long sequence takes nothing from what is judged, a long list does.
func TestCounted(t *testing.T) {
	for text, want := range map[string]bool{
		"for i in {1..10000}; do curl x/$i; done": false, "rm f{1..500}": false, "touch a{1..100}b{a..z}": false,
		"rm {" + strings.Repeat("a,", 100) + "b}": true, "for x in " + strings.Repeat("a ", 5000) + "; do b; done": true,
	} {
		if got := Posix(context.Background(), text, new(Room)).Limited; got != want {
			t.Errorf("%.40s: limited %v", text, got)
		}
	}
}
