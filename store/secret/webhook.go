package secret

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"time"
)

// WebhookSecret is the prefix of the secret with which webhooks are signed
// (Standard Webhooks 1.0.0). It has no checksum, because a secret from another sender
// can be taken over.
const WebhookSecret Kind = "whsec_"

// The size of a webhook secret in bytes, before base64.
const (
	webhookSecretSizeMin = 24
	webhookSecretSizeMax = 64
)

// NewWebhookSecret returns a webhook secret of 256 random bits.
func NewWebhookSecret(from Source) Token {
	var random [32]byte
	from.fill(string(WebhookSecret), random[:])
	return tokenOf(string(WebhookSecret) + base64.StdEncoding.EncodeToString(random[:]))
}

// ParseWebhookSecret returns the webhook secret with that text, or false when text is not
// whsec_ and the standard base64 of 24 to 64 bytes.
func ParseWebhookSecret(text string) (Token, bool) {
	size := len(webhookKey(text))
	if size < webhookSecretSizeMin || size > webhookSecretSizeMax {
		return Token{}, false
	}
	return tokenOf(text), true
}

// webhookKey returns the bytes of a webhook secret, or nil.
func webhookKey(text string) []byte {
	encoded, ok := strings.CutPrefix(text, string(WebhookSecret))
	if !ok || strings.ContainsAny(encoded, "\r\n") { // which the decoder skips
		return nil
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil {
		return nil
	}
	return key
}

// SignWebhook returns the header webhook-signature of one attempt to deliver body under
// id at that time: a signature by each secret, in their order.
func SignWebhook(secrets []Token, id string, at time.Time, body []byte) string {
	content := id + "." + strconv.FormatInt(at.Unix(), 10) + "."
	signatures := make([]string, len(secrets))
	for i, s := range secrets {
		mac := hmac.New(sha256.New, webhookKey(s.Reveal()))
		mac.Write([]byte(content))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}
