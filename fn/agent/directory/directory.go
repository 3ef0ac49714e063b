// Package directory is what the agent does to the server that runs beside it: over
// LDAPI, where the server takes a process of its own uid for the Directory Manager,
// without a password.
//
// Everything is level-triggered: it reads what there is, changes what differs, and says
// what it could not change. Nothing here deletes or overwrites an entry of a suffix.
package directory

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-ldap/ldap/v3"
)

// Where dscontainer's server listens, in every version.
const (
	DefaultSocket     = "/data/run/slapd-localhost.socket"
	DefaultAddress    = "127.0.0.1:3389"
	DefaultTLSAddress = "127.0.0.1:3636"
	DefaultDatabase   = "/data/db"
	DefaultTimeout    = 10 * time.Second
)

// Manager is the DN that the password of a service belongs to.
const Manager = "cn=Directory Manager"

// Options of a Server; what is empty has its default.
type Options struct {
	// Socket is LDAPI's.
	Socket string
	// Address of plain LDAP, TLSAddress of LDAPS.
	Address    string
	TLSAddress string
	// Database is the directory of the database.
	Database string
	// Timeout of one operation; the context may end it earlier.
	Timeout time.Duration
}

// A Server is the directory server in this pod. Its methods may be called from several
// goroutines. They share one connection, which the call after a failure makes anew.
type Server struct {
	o          Options
	operations atomic.Uint64

	// turn is held while a connection is made: a mutex that ends with a context.
	turn chan struct{}
	mu   sync.Mutex
	conn *ldap.Conn
	// connections made so far; a server that was restarted needs another.
	connections uint64
	// rooted are the suffixes, by normal DN, whose root entry was seen over conn.
	rooted map[string]bool
	// needsRestart is why; see NeedsRestart.
	needsRestart string

	// applying is held by the one caller that changes suffixes; the rest is its own.
	applying chan struct{}
	// appliedOver is the number of the connection that it used before.
	appliedOver uint64
	// tasks that build indexes, by the lower-case name of the backend.
	tasks map[string]string
	// made are the suffixes that were made while this server ran, by normal DN; detached
	// are those that one of them was put above.
	made     map[string]bool
	detached map[string]string
}

// New Server. It connects when it is first used.
func New(o Options) *Server {
	if o.Socket == "" {
		o.Socket = DefaultSocket
	}
	if o.Address == "" {
		o.Address = DefaultAddress
	}
	if o.TLSAddress == "" {
		o.TLSAddress = DefaultTLSAddress
	}
	if o.Database == "" {
		o.Database = DefaultDatabase
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	return &Server{
		o:        o,
		turn:     make(chan struct{}, 1),
		rooted:   map[string]bool{},
		applying: make(chan struct{}, 1),
		tasks:    map[string]string{},
		made:     map[string]bool{},
		detached: map[string]string{},
	}
}

// Operations is how many LDAP operations were sent so far, binds included.
func (s *Server) Operations() uint64 { return s.operations.Load() }

// Close the connection. A later call makes another one.
func (s *Server) Close() {
	s.mu.Lock()
	c := s.conn
	s.conn = nil
	s.mu.Unlock()
	if c != nil {
		_ = c.Close()
	}
}

// Forget what was seen: the next ApplySuffixes looks for every root entry again. A new
// connection forgets by itself.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.rooted)
}

// Alive asks the server for its root DSE.
func (s *Server) Alive(ctx context.Context) error {
	_, err := s.rootDSE(ctx, "1.1")
	return err
}

// vendorVersion is `389-Directory/3.1.2 B2026.125.0709`.
var vendorVersion = regexp.MustCompile(`^389-Directory/(\d+(?:\.\d+)*)`)

// Version that the server says it is, such as 3.1.2.
func (s *Server) Version(ctx context.Context) (string, error) {
	e, err := s.rootDSE(ctx, "vendorVersion")
	if err != nil {
		return "", err
	}
	v := e.GetEqualFoldAttributeValue("vendorVersion")
	m := vendorVersion.FindStringSubmatch(v)
	if m == nil {
		return "", fmt.Errorf("cannot read the version of a 389 Directory Server from %q", v)
	}
	return m[1], nil
}

// ServedCertificate is the certificate that LDAPS serves.
func (s *Server) ServedCertificate(ctx context.Context) (*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	d := tls.Dialer{Config: loopbackTLS()}
	c, err := d.DialContext(ctx, "tcp", s.o.TLSAddress)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to LDAPS at %s: %w", s.o.TLSAddress, err)
	}
	defer func() { _ = c.Close() }()
	t, ok := c.(*tls.Conn)
	if !ok || len(t.ConnectionState().PeerCertificates) == 0 {
		return nil, fmt.Errorf("cannot read the certificate of LDAPS at %s: none was served", s.o.TLSAddress)
	}
	return t.ConnectionState().PeerCertificates[0], nil
}

// loopbackTLS does not verify: the peer is the server in the same pod, whatever its
// certificate says, and an expired or foreign certificate is what is looked for.
func loopbackTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: true} //nolint:gosec // Loopback within the pod; see above.
}

func (s *Server) rootDSE(ctx context.Context, attribute string) (*ldap.Entry, error) {
	entries, err := s.search(ctx, "", ldap.ScopeBaseObject, "(objectClass=*)", attribute)
	if err != nil {
		return nil, fmt.Errorf("cannot read the root DSE: %w", err)
	}
	if len(entries) != 1 {
		return nil, errors.New("cannot read the root DSE: the server does not show it")
	}
	return entries[0], nil
}

func (s *Server) search(ctx context.Context, base string, scope int, filter string, attributes ...string) ([]*ldap.Entry, error) {
	return do(ctx, s, func(c *ldap.Conn) ([]*ldap.Entry, error) {
		r, err := c.Search(ldap.NewSearchRequest(base, scope, ldap.NeverDerefAliases, 0, 0, false, filter, attributes, nil))
		if err != nil {
			return nil, err
		}
		return r.Entries, nil
	})
}

func (s *Server) add(ctx context.Context, dn string, attributes ...ldap.Attribute) error {
	r := ldap.NewAddRequest(dn, nil)
	r.Attributes = attributes
	_, err := do(ctx, s, func(c *ldap.Conn) (struct{}, error) { return struct{}{}, c.Add(r) })
	return err
}

// replace the values of one attribute; none deletes it.
func (s *Server) replace(ctx context.Context, dn, attribute string, values ...string) error {
	r := ldap.NewModifyRequest(dn, nil)
	r.Replace(attribute, values)
	_, err := do(ctx, s, func(c *ldap.Conn) (struct{}, error) { return struct{}{}, c.Modify(r) })
	return err
}

// do one operation on the shared connection. Where the context ends first the answer is
// dropped: closing the connection would end what other goroutines do on it.
func do[T any](ctx context.Context, s *Server, operation func(*ldap.Conn) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	c, err := s.connection(ctx)
	if err != nil {
		return none, err
	}
	s.operations.Add(1)
	answers := make(chan answer, 1)
	go func() {
		// A panic here would end PID 1, and the server with it.
		defer func() {
			if p := recover(); p != nil {
				answers <- answer{err: fmt.Errorf("panic in an LDAP operation: %v", p)}
			}
		}()
		v, err := operation(c)
		answers <- answer{v, err}
	}()
	select {
	case a := <-answers:
		if a.err != nil && !answered(a.err) {
			s.drop(c)
		}
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// connection is the shared one, or a new one.
func (s *Server) connection(ctx context.Context) (*ldap.Conn, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s.mu.Lock()
	c := s.conn
	s.mu.Unlock()
	if c != nil && !c.IsClosing() {
		return c, nil
	}

	d := net.Dialer{Timeout: s.o.Timeout}
	raw, err := d.DialContext(ctx, "unix", s.o.Socket)
	if err != nil {
		return nil, fmt.Errorf("cannot connect to the server's LDAPI socket: %w", err)
	}
	c = ldap.NewConn(raw, false)
	c.Start()
	c.SetTimeout(s.o.Timeout)
	s.operations.Add(1)
	// Whoever waits for it no longer ends it, too.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	err = c.ExternalBind()
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("cannot bind to the server's LDAPI socket as the user that the agent runs as: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn = c
	s.connections++
	clear(s.rooted)
	return c, nil
}

// drop a connection that failed, unless another has taken its place.
func (s *Server) drop(c *ldap.Conn) {
	s.mu.Lock()
	if s.conn == c {
		s.conn = nil
	}
	s.mu.Unlock()
	_ = c.Close()
}

// answered says that an error is an answer of the server's: the connection still works.
func answered(err error) bool {
	var e *ldap.Error
	return errors.As(err, &e) && e.ResultCode < ldap.ErrorNetwork
}

// A failure is an error with what was being done, for explain.
type failure struct {
	what string
	err  error
}

func (f *failure) Error() string { return f.what + ": " + f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

// failed wraps an error with what could not be done.
func failed(err error, format string, args ...any) error {
	return &failure{what: fmt.Sprintf(format, args...), err: err}
}

// explain an error to a person: what could not be done, what the server answered, and what
// to do about it. It says the same as long as the cause is the same.
func explain(err error) string {
	var e *ldap.Error
	if !errors.As(err, &e) {
		return err.Error()
	}
	m := "the server answers " + strconv.Itoa(int(e.ResultCode))
	var f *failure
	if errors.As(err, &f) {
		m = f.what + ": " + m
	}
	if name := ldap.LDAPResultCodeMap[e.ResultCode]; name != "" {
		m += " (" + name + ")"
	}
	if e.Err != nil {
		if text := strings.TrimSpace(e.Err.Error()); text != "" {
			m += ": " + text
		}
	}
	if todo := remedies[e.ResultCode]; todo != "" {
		m += "; " + todo
	}
	return m
}

// remedies for what a person can do something about.
var remedies = map[uint16]string{
	ldap.LDAPResultBusy:                     "it is tried again until the server is less busy",
	ldap.LDAPResultUnavailable:              "it is tried again until the backend is back",
	ldap.LDAPResultUnwillingToPerform:       "it is tried again: if the server or the backend is read-only (nsslapd-readonly), make it writable",
	ldap.LDAPResultInsufficientAccessRights: "let autobind make the server's own user the Directory Manager (nsslapd-ldapiautobind, nsslapd-ldapimaprootdn)",
	ldap.LDAPResultObjectClassViolation:     "put the server's standard schema back",
	ldap.LDAPResultOperationsError:          "it is tried again: an import or a restore makes a backend unavailable until it ends; otherwise see the server's error log",
}
