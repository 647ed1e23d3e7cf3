package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// examples are command lines for commands whose help text has none. A test parses
// each of them.
var examples = map[string]string{
	"account create":  `tollhouse account create larkspur --name "Larkspur Bookkeeping"`,
	"account delete":  `tollhouse account delete larkspur`,
	"account disable": `tollhouse account disable larkspur`,
	"account enable":  `tollhouse account enable larkspur`,
	"account list":    `tollhouse account list --json`,
	"account revoke":  `tollhouse account revoke larkspur`,
	"account show":    `tollhouse account show larkspur`,
	"audit": `tollhouse audit --follow
tollhouse audit --json | grep refresh_reused`,
	"backup": `tollhouse backup /var/backups/tollhouse.backup --data /var/lib/tollhouse
tollhouse backup - | ssh vault.example 'cat > tollhouse.backup'`,
	"backup verify": `tollhouse backup verify /var/backups/tollhouse.backup`,
	"client create": `tollhouse client create --name "Larkspur Bookkeeping" --redirect-uri https://books.example/callback
tollhouse client create --name "Till on the phone" --public --redirect-uri http://127.0.0.1/callback --grant authorization_code --grant refresh_token
tollhouse client create --name "Nightly report" --grant password --scope events:read --json`,
	"client delete":  `tollhouse client delete CLIENT_ID`,
	"client disable": `tollhouse client disable CLIENT_ID`,
	"client enable":  `tollhouse client enable CLIENT_ID`,
	"client list":    `tollhouse client list --json`,
	"client rotate-secret": `tollhouse client rotate-secret CLIENT_ID
tollhouse client rotate-secret CLIENT_ID --revoke-tokens`,
	"client show": `tollhouse client show CLIENT_ID`,
	"client update": `tollhouse client update CLIENT_ID --add-redirect-uri https://books.example/callback
tollhouse client update CLIENT_ID --name "Larkspur Books" --scope events:read`,
	"dev": `tollhouse dev
tollhouse dev --access-ttl 2s --clock 2026-03-09T15:30:00Z`,
	"doctor": `tollhouse doctor --data /var/lib/tollhouse
tollhouse doctor --deep --json`,
	"event export": `tollhouse event export --account larkspur > history.ndjson`,
	"event generate": `tollhouse event generate --seed 7 --events 5000 > history.ndjson
tollhouse event generate --account larkspur --live --rate 2/s`,
	"event get": `tollhouse event get EVENT_ID --account larkspur`,
	"event import": `tollhouse event import history.ndjson --account larkspur --dry-run
tollhouse event import history.ndjson --account larkspur`,
	"event list": `tollhouse event list --since 2h --type 'customer.*'
tollhouse event list --resource cus_3zap9w55mv3n --order asc --json`,
	"event purge": `tollhouse event purge --account larkspur --kind customer --resource cus_3zap9w55mv3n`,
	"event tail": `tollhouse event tail --account larkspur --since 10m
tollhouse event tail --type payment.failed --json`,
	"export": `tollhouse export --secrets everything.ndjson
tollhouse export --only user --only client - | gzip > people.ndjson.gz
tollhouse export --account larkspur larkspur.ndjson`,
	"health": `tollhouse health --data /var/lib/tollhouse`,
	"import": `tollhouse import users.ndjson --dry-run
tollhouse import users.ndjson --try harriet
tollhouse import users.ndjson --allow privileged,digest --update`,
	"move": `tollhouse move --data /var/lib/tollhouse 'postgres://toll@db.example/toll?sslmode=verify-full'
tollhouse move --store 'postgres://toll@db.example/toll?sslmode=verify-full' /var/lib/tollhouse`,
	"alarm list": `tollhouse alarm list
tollhouse alarm list --json`,
	"alarm test": `tollhouse alarm test
tollhouse alarm test --json`,
	"print grafana": `tollhouse print grafana > /var/lib/grafana/dashboards/tollhouse.json`,
	"print migration": `tollhouse print migration doorkeeper > export.rb
tollhouse print migration fosoauthserverbundle > src/Command/TollhouseExportCommand.php`,
	"print openapi": `tollhouse print openapi --public-url https://pay.example > openapi.json`,
	"stats": `tollhouse stats --range 7d --account larkspur
tollhouse stats --range 1h --json`,
	"restore": `tollhouse restore /var/backups/tollhouse.backup --data /var/lib/tollhouse`,
	"serve": `tollhouse serve --data /var/lib/tollhouse
tollhouse serve --listen 0.0.0.0:8080 --public-url https://pay.example --trusted-proxies 10.0.0.0/8
tollhouse serve --listen :443 --public-url https://pay.example --tls-cert tls.crt --tls-key tls.key
tollhouse serve --listen :443 --public-url https://pay.example --tls auto --http-redirect :80`,
	"session list": `tollhouse session list
tollhouse session list --user harriet --json`,
	"session revoke": `tollhouse session revoke ses_3zap9w55mv3n1k7q0d8xg2b4ch
tollhouse session revoke --user harriet`,
	"token inspect": `tollhouse token inspect --token-file leaked.txt
tollhouse token inspect --token-file leaked.txt --json`,
	"token list": `tollhouse token list
tollhouse token list --user harriet --json`,
	"token revoke": `tollhouse token revoke fam_3zap9w55mv3n1k7q0d8xg2b4ch
tollhouse token revoke --token-file leaked.txt`,
	"user code": `tollhouse user code harriet --code-expires 7d
tollhouse user code --all-without-password --out codes.ndjson`,
	"user create": `tollhouse user create harriet --account larkspur
tollhouse user create harriet --operator --code
tollhouse user create harriet --password-file /run/secrets/harriet`,
	"user demote":              `tollhouse user demote harriet`,
	"user delete":              `tollhouse user delete harriet`,
	"user disable":             `tollhouse user disable harriet`,
	"user reset-second-factor": `tollhouse user reset-second-factor harriet --yes`,
	"user enable":              `tollhouse user enable harriet`,
	"user list":                `tollhouse user list --json`,
	"user passwd":              `tollhouse user passwd harriet`,
	"user promote":             `tollhouse user promote harriet`,
	"user rename":              `tollhouse user rename harriet hattie`,
	"user show":                `tollhouse user show harriet`,
	"version":                  `tollhouse version --json`,
	"webhook create": `tollhouse webhook create --url https://books.example/hook --account larkspur --type 'customer.*'
tollhouse webhook create --url https://ledger.example/hook --account larkspur --order none --json`,
	"webhook delete": `tollhouse webhook delete ENDPOINT_ID`,
	"webhook deliveries": `tollhouse webhook deliveries ENDPOINT_ID --state parked
tollhouse webhook deliveries ENDPOINT_ID --json --limit 20`,
	"webhook disable": `tollhouse webhook disable ENDPOINT_ID`,
	"webhook enable": `tollhouse webhook enable ENDPOINT_ID
tollhouse webhook enable ENDPOINT_ID --from now`,
	"webhook hold":   `tollhouse webhook hold`,
	"webhook list":   `tollhouse webhook list --state failing`,
	"webhook resume": `tollhouse webhook resume`,
	"webhook retry": `tollhouse webhook retry ENDPOINT_ID EVENT_ID
tollhouse webhook retry ENDPOINT_ID --state dead
tollhouse webhook retry ENDPOINT_ID --from 2026-03-09T15:00:00Z --to 2026-03-09T16:00:00Z`,
	"webhook rotate-secret": `tollhouse webhook rotate-secret ENDPOINT_ID
tollhouse webhook rotate-secret ENDPOINT_ID --overlap 0s`,
	"webhook send-test": `tollhouse webhook send-test ENDPOINT_ID`,
	"webhook show":      `tollhouse webhook show ENDPOINT_ID`,
	"webhook skip":      `tollhouse webhook skip ENDPOINT_ID`,
	"webhook update":    `tollhouse webhook update ENDPOINT_ID --url https://books.example/events --order none`,
	"webhook listen": `tollhouse webhook listen --forward-to http://127.0.0.1:3000/hook
tollhouse webhook listen --forward-to http://127.0.0.1:3000/hook --type 'customer.*' --since 1h`,
}

// addExamples adds the examples to the help of their commands.
func addExamples(root *cobra.Command) {
	eachCommand(root, func(c *cobra.Command) {
		if lines, ok := examples[strings.TrimPrefix(c.CommandPath(), root.Name()+" ")]; ok {
			c.Example = "  " + strings.ReplaceAll(lines, "\n", "\n  ")
		}
	})
}
