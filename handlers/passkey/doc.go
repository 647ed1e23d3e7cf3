// Package passkey speaks WebAuthn with a browser: what it must be asked to make or use a passkey,
// and whether its answer is right (https://www.w3.org/TR/webauthn-3/). A room draws the page and
// stores the outcome.
//
//   - address.go says where passkeys can be made and used. Browsers bind each to a host.
//   - begin.go writes the options for the browser, and the [State] of the ceremony, which the room
//     seals into the form with the user, the sign-in and the end.
//   - finish.go checks what the browser sends back: credential.go reads it, key.go has the public
//     keys.
//
// It keeps nothing and reads no store: a room passes the passkeys of the user, and the transaction
// of the store judges what depends on the record, such as the count of signatures.
//
// Our choice: it is written out here, because the library for it, with the attestation that is not
// used here, adds 2 MB to the binary. The tests put each answer to that library too.
package passkey
