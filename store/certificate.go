package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tollhouse/store/kv"
)

// What TLS keeps here is whatever its certificates' issuer needs to be asked
// once only: the certificate with its private key, and the key of our account
// there. Each is sealed with the server key for its own name, so that neither a
// backup nor a stolen store yields a private key, and no record can take
// another's place.

const (
	certificateRecord  = 1
	certificateNameMax = 255      // bytes; longer than any host name
	certificateSizeMax = 64 << 10 // bytes; a chain and its key have under 10 KiB
)

// FindCertificate returns what was kept under a name. One that was sealed with
// another server key counts as none. Errors: ErrNotFound.
func (s *Store) FindCertificate(ctx context.Context, name string) ([]byte, error) {
	var plain []byte
	err := checkCertificateName(name)
	if err == nil {
		err = s.db.View(ctx, func(r kv.Reader) error {
			value, err := r.Get(certificateKey(name))
			if err != nil {
				return err
			}
			sealed, err := decodeCertificate(value)
			if err != nil {
				return err
			}
			opened, ok := s.key.Open(certificateLabel(name), sealed)
			if !ok {
				return ErrNotFound
			}
			plain = opened
			return nil
		})
	}
	if isAbsent(err) {
		err = ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("find certificate: %w", err)
	}
	return plain, nil
}

// UpdateCertificate keeps data under a name, in place of what was there. Errors:
// ErrNotFound for a name that none can have.
func (s *Store) UpdateCertificate(ctx context.Context, name string, data []byte) error {
	err := checkCertificateName(name)
	if err == nil && len(data) > certificateSizeMax {
		err = errCertificateSize
	}
	if err == nil {
		value := encodeCertificate(s.key.Seal(certificateLabel(name), data))
		err = s.db.Update(ctx, func(tx kv.Txn) error { return tx.Set(certificateKey(name), value, time.Time{}) })
	}
	if err != nil {
		return fmt.Errorf("update certificate: %w", err)
	}
	return nil
}

// DeleteCertificate removes what was kept under a name, if anything was.
func (s *Store) DeleteCertificate(ctx context.Context, name string) error {
	if checkCertificateName(name) != nil {
		return nil
	}
	if err := s.db.Update(ctx, func(tx kv.Txn) error { return tx.Delete(certificateKey(name)) }); err != nil {
		return fmt.Errorf("delete certificate: %w", err)
	}
	return nil
}

var errCertificateSize = errors.New("a certificate is larger than 64 KiB")

// checkCertificateName refuses what no key may hold. Names come from strangers
// too, who ask for challenges that there are not.
func checkCertificateName(name string) error {
	if name == "" || len(name) > certificateNameMax || strings.IndexByte(name, 0) >= 0 {
		return ErrNotFound
	}
	return nil
}

func certificateLabel(name string) string { return "certificate/" + name }

func encodeCertificate(sealed string) []byte {
	e := newEncoder(certificateRecord)
	e.str(sealed)
	return e.b
}

func decodeCertificate(value []byte) (sealed string, err error) {
	d := newDecoder("certificate", certificateRecord, value)
	sealed = d.str()
	return sealed, d.done()
}
