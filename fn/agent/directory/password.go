package directory

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/go-ldap/ldap/v3"
)

// errEmptyPassword: a simple bind with an empty password succeeds, as nobody.
var errEmptyPassword = errors.New("the password of the Directory Manager is empty")

// ApplyPassword makes the server accept the password for the Directory Manager (R11):
// where a real bind says that it does not, it is set and tried once more. It is set as
// it is; a line break at its end counts. No error has it.
func (s *Server) ApplyPassword(ctx context.Context, password string) (changed bool, err error) {
	err = s.Bind(ctx, password)
	if err == nil || !ldap.IsErrorWithCode(err, ldap.LDAPResultInvalidCredentials) {
		return false, err
	}
	if err := s.replace(ctx, "cn=config", "nsslapd-rootpw", password); err != nil {
		return false, fmt.Errorf("cannot set the password of the Directory Manager: %s", redact(explain(err), password))
	}
	if err := s.Bind(ctx, password); err != nil {
		// The server takes a password that begins like a hash for one.
		return true, fmt.Errorf("the password of the Directory Manager was set, and is not accepted (does it begin with a storage scheme such as {SSHA}?): %w", err)
	}
	return true, nil
}

// Bind as clients do: as the Directory Manager, with a password, over TCP; over LDAPS
// where the server wants binds to be encrypted.
func (s *Server) Bind(ctx context.Context, password string) error {
	if password == "" {
		return errEmptyPassword
	}
	err := s.bind(ctx, s.o.Address, nil, password)
	if wantsTLS(err) {
		err = s.bind(ctx, s.o.TLSAddress, loopbackTLS(), password)
	}
	if err != nil {
		return fmt.Errorf("cannot bind as %s: %w", Manager, err)
	}
	return nil
}

func (s *Server) bind(ctx context.Context, address string, secure *tls.Config, password string) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	var raw net.Conn
	var err error
	if secure != nil {
		d := tls.Dialer{Config: secure}
		raw, err = d.DialContext(ctx, "tcp", address)
	} else {
		raw, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return err
	}
	// The connection is this call's own: it ends with the context.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	c := ldap.NewConn(raw, secure != nil)
	c.Start()
	c.SetTimeout(s.o.Timeout)
	defer func() { _ = c.Close() }()
	s.operations.Add(1)
	if err := c.Bind(Manager, password); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		// The text of an answer is the server's: it is not known to never quote.
		var e *ldap.Error
		if errors.As(err, &e) && e.Err != nil {
			return ldap.NewError(e.ResultCode, errors.New(redact(e.Err.Error(), password)))
		}
		return err
	}
	return nil
}

// wantsTLS says that the server refuses a bind because it is not encrypted
// (nsslapd-require-secure-binds, nsslapd-minssf).
func wantsTLS(err error) bool {
	return ldap.IsErrorWithCode(err, ldap.LDAPResultConfidentialityRequired) ||
		ldap.IsErrorWithCode(err, ldap.LDAPResultUnwillingToPerform) && strings.Contains(err.Error(), "SSF")
}

func redact(text, secret string) string { return strings.ReplaceAll(text, secret, "***") }
