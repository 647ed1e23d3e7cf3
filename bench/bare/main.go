// Command bare is the floor of a start: the least that a program over net/http
// and httprouter does before it answers. It is a program of its own, because a
// package that is linked in is initialised whether it is used or not. It listens
// at the address that it is given, or at a free one.
package main

import (
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/julienschmidt/httprouter"
)

func main() {
	r := httprouter.New()
	r.GET("/empty", func(http.ResponseWriter, *http.Request, httprouter.Params) {})
	address := "127.0.0.1:0"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	listener, err := net.Listen("tcp", address)
	if err == nil {
		fmt.Printf("{\"url\":\"http://%s\"}\n", listener.Addr())
		err = http.Serve(listener, r)
	}
	fmt.Fprintln(os.Stderr, "bare:", err)
	os.Exit(1)
}
