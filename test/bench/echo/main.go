// Command echo is a composition function that always gives the same answer, from
// memory. Any function that gives this answer costs at least as much.
package main

import (
	"context"
	"log"
	"os"

	function "github.com/crossplane/function-sdk-go"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"google.golang.org/protobuf/proto"
)

type echo struct {
	fnv1.UnimplementedFunctionRunnerServiceServer

	rsp *fnv1.RunFunctionResponse
}

func (e *echo) RunFunction(context.Context, *fnv1.RunFunctionRequest) (*fnv1.RunFunctionResponse, error) {
	return e.rsp, nil
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: echo ADDRESS RESPONSE, a file with a RunFunctionResponse in the wire format")
	}
	b, err := os.ReadFile(os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	rsp := &fnv1.RunFunctionResponse{}
	if err := proto.Unmarshal(b, rsp); err != nil {
		log.Fatal(err)
	}
	log.Fatal(function.Serve(&echo{rsp: rsp},
		function.Listen("tcp", os.Args[1]),
		function.Insecure(true),
		function.WithMetricsServer(""),
	))
}
