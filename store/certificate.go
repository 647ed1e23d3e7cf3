package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"tollhouse/store/kv"
	"tollhouse/store/record"
)

// The store keeps certificates with their private keys, and the ACME account key, so
// that the issuer need not be asked again after a restart. Each is sealed with the
// server key under its own name: a backup or a stolen store reveals no private key,
// and records cannot be swapped.

const (
	certificateRecord  = 1
	certificateNameMax = 255      // bytes; longer than any host name
	certificateSizeMax = 64 << 10 // bytes; a chain and its key have under 10 KiB
)

// FindCertificate returns the data stored under a name. Data sealed with another
// server key counts as missing. Errors: ErrNotFound.
func (s *Store) FindCertificate(ctx context.Context, name string) ([]byte, error) {
	var plain []byte
	err := checkCertificateName(name)
	if err == nil {
		err = s.db.View(ctx, func(r kv.Reader) error {
			value, err := r.Get(record.CertificateKey(name))
			if err != nil {
				return err
			}
			sealed, err := decodeCertificate(value)
			if err != nil {
				return err
			}
			opened, ok := s.key.Open(certificateLabel(name), sealed)
			if !ok {
				return record.ErrNotFound
			}
			plain = opened
			return nil
		})
	}
	if record.IsAbsent(err) {
		err = record.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("find certificate: %w", err)
	}
	return plain, nil
}

// UpdateCertificate stores data under a name and replaces any older data. Errors:
// ErrNotFound for an invalid name.
func (s *Store) UpdateCertificate(ctx context.Context, name string, data []byte) error {
	err := checkCertificateName(name)
	if err == nil && len(data) > certificateSizeMax {
		err = errCertificateSize
	}
	if err == nil {
		value := encodeCertificate(s.key.Seal(certificateLabel(name), data))
		err = record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) error { return tx.Set(record.CertificateKey(name), value, time.Time{}) })
	}
	if err != nil {
		return fmt.Errorf("update certificate: %w", err)
	}
	return nil
}

// DeleteCertificate removes the data under a name, if any. Errors: ErrNotFound for an
// invalid name.
func (s *Store) DeleteCertificate(ctx context.Context, name string) error {
	err := checkCertificateName(name)
	if err == nil {
		err = record.UpdateAs(ctx, s.db, kv.Ruling, func(tx kv.Txn) error { return tx.Delete(record.CertificateKey(name)) })
	}
	if err != nil {
		return fmt.Errorf("delete certificate: %w", err)
	}
	return nil
}

var errCertificateSize = errors.New("a certificate is larger than 64 KiB")

// checkCertificateName rejects names that cannot be part of a key.
func checkCertificateName(name string) error {
	if name == "" || len(name) > certificateNameMax || strings.IndexByte(name, 0) >= 0 {
		return record.ErrNotFound
	}
	return nil
}

func certificateLabel(name string) string { return "certificate/" + name }

func encodeCertificate(sealed string) []byte {
	return record.NewEncoder(certificateRecord).Str(sealed).B
}

func decodeCertificate(value []byte) (sealed string, err error) {
	d := record.NewDecoder("certificate", certificateRecord, value)
	sealed = d.Str()
	return sealed, d.Done()
}
