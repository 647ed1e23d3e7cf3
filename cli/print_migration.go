package cli

import (
	"embed"

	"github.com/spf13/cobra"
)

// The scripts, in printed/ exactly as they are printed. Each is in the language of the system that
// it reads, so that it finds the system's own database and settings.
//
//go:embed printed/migration
var printedMigrations embed.FS

// migrationNames are the operands of print migration.
var migrationNames = []string{"fosoauthserverbundle", "doorkeeper", "django-oauth-toolkit", "hydra", "keycloak"}

func (p *program) printMigrationCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "migration NAME",
		Short: "print a script that exports another system's users, clients and tokens",
		Long: `Print a script that reads another system and writes lines for tollhouse import. It runs
where that system runs, and changes nothing there; the comment at the top has the
command. NAME is one of:

  fosoauthserverbundle   a console command for Symfony or Mautic
  doorkeeper             for bin/rails runner
  django-oauth-toolkit   for manage.py shell
  hydra                  Python, for Hydra 2 and Kratos on PostgreSQL
  keycloak               Python, for the files of kc.sh export

docs/migration.md is the guide.`,
		Args:      operands("NAME"),
		ValidArgs: migrationNames,
		RunE:      p.printingOneOf("system", migrationNames, printedMigrations, "printed/migration/"),
	}
}
