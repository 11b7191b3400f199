// Package main serves PodResources at a Unix socket, as a kubelet does, from the types that the kubelet itself has.
//
//	pod-resources SOCKET ANSWER.json
//
// The file has the answer in protobuf's JSON. It is read at each call; where it cannot be, the call fails with what is
// wrong with it.
package main

import (
	"context"
	"log"
	"net"
	"os"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

type server struct {
	podresources.UnimplementedPodResourcesListerServer
	answer string
}

func (s server) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	text, err := os.ReadFile(s.answer)
	answer := &podresources.ListPodResourcesResponse{}
	if err == nil {
		err = protojson.Unmarshal(text, answer)
	}
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return answer, nil
}

func main() {
	os.Remove(os.Args[1])
	listening, err := net.Listen("unix", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	serving := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(serving, server{answer: os.Args[2]})
	log.Fatal(serving.Serve(listening))
}
