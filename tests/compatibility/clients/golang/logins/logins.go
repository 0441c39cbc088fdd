// Package logins holds what Go's clients need on secured listeners: the logins of a file, TLS, verdicts.
package logins

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// Login is one user at one listener, and what is to be done there.
type Login struct {
	Name, Bootstrap, Protocol, Mechanism, User, Password, Token string
	Authority, Certificate, Topic, Group, Value                 string
	IsWrong                                                     bool `json:"is_wrong"`
}

// HasSasl tells whether the login has a mechanism.
func (l Login) HasSasl() bool { return strings.HasPrefix(l.Protocol, "SASL") }

// Brokers are the addresses to begin with.
func (l Login) Brokers() []string { return strings.Split(l.Bootstrap, ",") }

// TLS is nil where the listener has none.
func (l Login) TLS() *tls.Config {
	if !strings.Contains(l.Protocol, "SSL") {
		return nil
	}
	text, err := os.ReadFile(l.Authority)
	must(err)
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(text)
	config := &tls.Config{RootCAs: trusted}
	if l.Protocol == "SSL" {
		own, err := tls.LoadX509KeyPair(l.Certificate, l.Certificate)
		must(err)
		config.Certificates = []tls.Certificate{own}
	}
	return config
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// Run tries every login of the file that the program was given. A wrong one must not get in.
func Run(roundTrip func(Login) (string, error)) {
	data, err := os.ReadFile(os.Args[1])
	must(err)
	var all []Login
	must(json.Unmarshal(data, &all))
	for _, login := range all {
		got, err := roundTrip(login)
		isIn := err == nil && got == login.Value
		outcome, detail := "failed", got
		if isIn != login.IsWrong {
			outcome = "passed"
		}
		if err != nil {
			detail = err.Error()
		}
		line, _ := json.Marshal(map[string]string{"step": login.Name, "outcome": outcome, "detail": detail})
		fmt.Println(string(line))
	}
	fmt.Println(`{"done": true}`)
}
