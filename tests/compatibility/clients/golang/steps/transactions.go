package steps

import (
	"fmt"
	"time"
)

// Session is a transactional producer that has its id and epoch. Every call waits for its result.
type Session interface {
	Begin() error
	Send(topic, value string) error
	SendOffset(topic string, offset int64, group string) error
	Commit() error
	Abort() error
	Close()
}

// Library is what a client's script gives; topics have one partition here.
type Library struct {
	Create func(topic string) error
	Open   func(transactionalID string, timeout time.Duration) (Session, error)
	// Write is outside of transactions.
	Write func(topic, value string) error
	// Read returns the first values that a reader of committed records gets.
	Read func(topic string, count int) ([]string, error)
	// Position is nil where SendOffset does nothing.
	Position func(group, topic string) (int64, error)
}

func (library Library) begun(name string, timeout time.Duration, value string) (Session, error) {
	session, err := library.Open(Prefix+"-"+name, timeout)
	if err != nil {
		return nil, err
	}
	return session, First(session.Begin(), session.Send(Prefix+"-"+name, value))
}

func refused(session Session) error {
	err := session.Commit()
	session.Close()
	return Same(err != nil, true, "the commit was refused")
}

func (library Library) holds(topic string, wanted ...string) error {
	values, err := library.Read(topic, len(wanted))
	return First(err, Same(values, wanted, "committed values"))
}

func (library Library) commitAndAbort() error {
	topic := Prefix + "-ended"
	if err := library.Create(topic); err != nil {
		return err
	}
	session, err := library.Open(topic, time.Minute)
	if err != nil {
		return err
	}
	for number := int64(0); number < 5; number++ {
		err := First(session.Begin(), session.Send(topic, fmt.Sprint(number)))
		if err = First(err, session.SendOffset(topic, number+1, topic)); err != nil {
			return err
		}
		if number%2 == 0 {
			err = session.Commit()
		} else {
			err = session.Abort()
		}
		if err != nil {
			return err
		}
	}
	session.Close()
	if err := library.holds(topic, "0", "2", "4"); err != nil || library.Position == nil {
		return err
	}
	position, err := library.Position(topic, topic)
	return First(err, Same(position, int64(5), "position"))
}

func (library Library) fenced() error {
	topic := Prefix + "-fenced"
	if err := library.Create(topic); err != nil {
		return err
	}
	first, err := library.begun("fenced", time.Minute, "lost")
	if err != nil {
		return err
	}
	second, err := library.begun("fenced", time.Minute, "kept")
	if err != nil {
		return err
	}
	defer second.Close()
	return First(refused(first), second.Commit(), library.holds(topic, "kept"))
}

func (library Library) timedOut() error {
	topic := Prefix + "-late"
	if err := library.Create(topic); err != nil {
		return err
	}
	session, err := library.begun("late", time.Second, "lost")
	if err = First(err, library.Write(topic, "behind"), library.holds(topic, "behind")); err != nil {
		return err
	}
	return refused(session)
}

func (library Library) restarted() error {
	topic := Prefix + "-restarted"
	if err := library.Create(topic); err != nil {
		return err
	}
	session, err := library.begun("restarted", time.Minute, "before")
	if err = First(err, Restart()); err != nil {
		return err
	}
	defer session.Close()
	return First(session.Send(topic, "after"), session.Commit(), library.holds(topic, "before", "after"))
}

// Transactions are the rows of the matrix.
func (library Library) Transactions() []Step {
	return []Step{
		{Name: "transactions: commit and abort, with positions", Do: library.commitAndAbort},
		{Name: "transactions: a newer producer fences the older", Do: library.fenced},
		{Name: "transactions: aborted after their timeout", Do: library.timedOut},
		{Name: "transactions: committed after a restart of the broker", Do: library.restarted},
	}
}
