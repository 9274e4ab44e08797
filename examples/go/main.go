// What a gateway does with PrefixRouter, in Go: it registers instances, asks for each request where
// to send it, says how the request went, and prints why each choice was made.
//
//	go run .    # with prefixrouter-c.pc on PKG_CONFIG_PATH, the library on LD_LIBRARY_PATH
package main

import (
	"errors"
	"fmt"
	"log"

	"example.com/gateway/prefixrouter"
)

// prompt stands for the model's tokenizer: a system prompt that all users share, then the user's
// words.
func prompt(user uint32) []uint32 {
	const promptTokens, systemTokens = 1000, 800
	tokens := make([]uint32, promptTokens)
	for i := range tokens {
		tokens[i] = uint32(i)
		if i >= systemTokens {
			tokens[i] += (user + 1) * 100000
		}
	}
	return tokens
}

type gateway struct {
	router *prefixrouter.Router
	names  map[prefixrouter.Instance]string
}

// serve handles one request: where to, why, and what came of it.
func (g *gateway) serve(user uint32) (prefixrouter.Decision, error) {
	lease, decision, err := g.router.Acquire(prompt(user))
	if err != nil {
		return decision, fmt.Errorf("user %d: %w", user, err)
	}
	fmt.Printf("user %d: %s by %v, %d of %d tokens cached, first token in %.3f s\n", user,
		g.names[decision.Instance], decision.Rule, decision.CachedTokens, decision.PromptTokens,
		decision.PredictedTTFT.Seconds())

	// Here the request goes to the instance; lease.Cancel() if that fails. When the first byte of
	// the answer arrives:
	if err := lease.FirstToken(); err != nil {
		return decision, err
	}
	// When the answer is complete:
	return decision, lease.Finish(100)
}

func run() error {
	router, err := prefixrouter.New()
	if err != nil {
		return err
	}
	defer router.Close()

	g := gateway{router, map[prefixrouter.Instance]string{}}
	_, err = router.Route(prompt(0))
	var failure *prefixrouter.Error
	if !errors.As(err, &failure) || failure.Code != prefixrouter.Unavailable {
		return fmt.Errorf("routing without instances: %v", err)
	}
	fmt.Println("no instance yet, a gateway answers 503:", failure.Message)

	for _, name := range []string{"10.0.0.1:8000", "10.0.0.2:8000"} {
		instance, err := router.AddInstance(name, 0)
		if err != nil {
			return err
		}
		g.names[instance] = name
	}
	var total, cached uint64
	for turn := uint32(0); turn < 6; turn++ {
		decision, err := g.serve(turn % 3)
		if err != nil {
			return err
		}
		total += decision.PromptTokens
		cached += decision.CachedTokens
	}
	fmt.Printf("6 requests, %d %% of their tokens cached\n", 100*cached/total)
	if cached <= total/2 {
		return errors.New("too few tokens cached")
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}
