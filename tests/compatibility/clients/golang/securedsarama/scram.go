package main

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

// scram is the client's side of RFC 5802, which sarama leaves to its users.
type scram struct {
	mechanism, user, password, first, signature string
	step                                        int
}

func (s *scram) hash() hash.Hash {
	if s.mechanism == "SCRAM-SHA-256" {
		return sha256.New()
	}
	return sha512.New()
}

func (s *scram) mac(key []byte, text string) []byte {
	made := hmac.New(s.hash, key)
	made.Write([]byte(text))
	return made.Sum(nil)
}

func (s *scram) Begin(user, password, _ string) error {
	nonce := make([]byte, 18)
	rand.Read(nonce)
	escaped := strings.NewReplacer("=", "=3D", ",", "=2C").Replace(user)
	s.user, s.password = user, password
	s.first = fmt.Sprintf("n=%s,r=%s", escaped, base64.StdEncoding.EncodeToString(nonce))
	return nil
}

func (s *scram) Step(challenge string) (string, error) {
	s.step++
	switch s.step {
	case 1:
		return "n,," + s.first, nil
	case 2:
		return s.proof(challenge)
	}
	if challenge != "v="+s.signature {
		return "", errors.New("the broker does not know the password")
	}
	return "", nil
}

func (s *scram) proof(challenge string) (string, error) {
	fields := map[byte]string{}
	for _, field := range strings.Split(challenge, ",") {
		fields[field[0]] = field[2:]
	}
	salt, err1 := base64.StdEncoding.DecodeString(fields['s'])
	iterations, err2 := strconv.Atoi(fields['i'])
	salted, err3 := pbkdf2.Key(s.hash, s.password, salt, iterations, s.hash().Size())
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", err
	}
	final := "c=biws,r=" + fields['r']
	signed := strings.Join([]string{s.first, challenge, final}, ",")
	key := s.mac(salted, "Client Key")
	stored := s.hash()
	stored.Write(key)
	for at, mask := range s.mac(stored.Sum(nil), signed) {
		key[at] ^= mask
	}
	s.signature = base64.StdEncoding.EncodeToString(s.mac(s.mac(salted, "Server Key"), signed))
	return final + ",p=" + base64.StdEncoding.EncodeToString(key), nil
}

func (s *scram) Done() bool { return s.step >= 3 }
