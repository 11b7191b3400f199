// Package main is a device plugin: it offers cards that do not exist to a kubelet, as nvidia.com/gpu.
//
//	device-plugin FOLDER ID,ID,...
//
// FOLDER is where the kubelet listens for plugins. A kubelet that was started again is registered with again.
package main

import (
	"context"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const endpoint = "gua-test-gpu.sock"

type server struct {
	plugin.UnimplementedDevicePluginServer
	ids []string
}

func (server) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

func (s server) ListAndWatch(_ *plugin.Empty, stream plugin.DevicePlugin_ListAndWatchServer) error {
	answer := &plugin.ListAndWatchResponse{}
	for _, id := range s.ids {
		answer.Devices = append(answer.Devices, &plugin.Device{ID: id, Health: plugin.Healthy})
	}
	if err := stream.Send(answer); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (server) Allocate(_ context.Context, request *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	answer := &plugin.AllocateResponse{}
	for range request.ContainerRequests {
		answer.ContainerResponses = append(answer.ContainerResponses, &plugin.ContainerAllocateResponse{})
	}
	return answer, nil
}

func main() {
	folder, ids := os.Args[1], strings.Split(os.Args[2], ",")
	for {
		// The kubelet empties the folder when it starts.
		if _, err := os.Stat(filepath.Join(folder, endpoint)); err != nil {
			if err := register(folder, ids); err != nil {
				log.Print(err)
			} else {
				log.Print("registered")
			}
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func register(folder string, ids []string) error {
	if _, err := os.Stat(filepath.Join(folder, "kubelet.sock")); err != nil {
		return err
	}
	listening, err := net.Listen("unix", filepath.Join(folder, endpoint))
	if err != nil {
		return err
	}
	serving := grpc.NewServer()
	plugin.RegisterDevicePluginServer(serving, server{ids: ids})
	go serving.Serve(listening)
	connection, err := grpc.NewClient("unix://"+filepath.Join(folder, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		defer connection.Close()
		request := &plugin.RegisterRequest{Version: plugin.Version, Endpoint: endpoint, ResourceName: "nvidia.com/gpu"}
		_, err = plugin.NewRegistrationClient(connection).Register(context.Background(), request)
	}
	if err != nil {
		serving.Stop() // and removes the socket, so that it is tried again
	}
	return err
}
