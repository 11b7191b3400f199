// Package main keeps go.mod to what the kubelet needs; what is built is k8s.io/kubernetes/cmd/kubelet.
package main

import _ "k8s.io/kubernetes/cmd/kubelet/app"

func main() {}
