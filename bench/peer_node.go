package main

import (
	"context"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
)

const oidcProviderVersion = "9.13.3"

//go:embed node/server.mjs
var nodeServer []byte

// runOIDCProvider starts oidc-provider with a map as its store. Its own store in memory
// is for development: it keeps about a thousand entries.
func runOIDCProvider(ctx context.Context, dir string) (*server, error) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return nil, absent(tool + " is not installed")
		}
	}
	own := filepath.Join(dir, "node")
	if err := os.Mkdir(own, 0o755); err != nil {
		return nil, err
	}
	program := filepath.Join(own, "server.mjs")
	if err := os.WriteFile(program, nodeServer, 0o644); err != nil {
		return nil, err
	}
	// npm would install into a folder above that has one.
	if err := os.WriteFile(filepath.Join(own, "package.json"), []byte(`{"private":true}`), 0o644); err != nil {
		return nil, err
	}
	if err := setUp(ctx, own, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "oidc-provider@"+oidcProviderVersion); err != nil {
		return nil, err
	}
	if err := os.Setenv("NODE_ENV", "production"); err != nil {
		return nil, err
	}
	return start("node", program, peerClient, peerSecret, username, password)
}
