// Print the field numbers of the protobuf messages of Kubernetes, which the simulated API server needs to read
// requests of typed clients: for every message, number → [name in JSON, type, how it is held].
//
//	cd tests/testbed/control-plane
//	go run ../../../scripts/protobuf_fields.go > ../../../src/kubesim/apiserver/protobuf_fields.json
package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Of the kinds in kubesim.apiserver.kind_registry, and what their subresources take.
var roots = map[string][]string{
	"v1": {"Binding", "ConfigMap", "Event", "LimitRange", "Namespace", "Node", "PersistentVolume", "PersistentVolumeClaim",
		"Pod", "ReplicationController", "ResourceQuota", "Secret", "Service", "ServiceAccount", "DeleteOptions"},
	"admissionregistration.k8s.io/v1": {"MutatingWebhookConfiguration", "ValidatingAdmissionPolicy",
		"ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration"},
	"apps/v1":                      {"ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"},
	"authorization.k8s.io/v1":      {"SelfSubjectAccessReview"},
	"autoscaling/v1":               {"Scale"},
	"autoscaling/v2":               {"HorizontalPodAutoscaler"},
	"batch/v1":                     {"CronJob", "Job"},
	"coordination.k8s.io/v1":       {"Lease"},
	"discovery.k8s.io/v1":          {"EndpointSlice"},
	"events.k8s.io/v1":             {"Event"},
	"networking.k8s.io/v1":         {"NetworkPolicy"},
	"policy/v1":                    {"Eviction", "PodDisruptionBudget"},
	"rbac.authorization.k8s.io/v1": {"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"},
	"scheduling.k8s.io/v1":         {"PriorityClass"},
	"storage.k8s.io/v1":            {"CSIDriver", "CSINode", "CSIStorageCapacity", "StorageClass", "VolumeAttachment"},
}

type message map[string][]string

var messages = map[string]message{}

func main() {
	kinds := map[string]string{}
	for apiVersion, names := range roots {
		for _, name := range names {
			object, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(apiVersion, name))
			if err != nil {
				panic(err)
			}
			kinds[apiVersion+" "+name] = describe(reflect.TypeOf(object).Elem())
		}
	}
	fmt.Printf("{\"kinds\": %s,\n\"messages\": {\n", text(kinds))
	names := []string{}
	for name := range messages {
		names = append(names, name)
	}
	sort.Strings(names)
	for position, name := range names {
		comma := ","
		if position == len(names)-1 {
			comma = ""
		}
		fmt.Printf("%q: %s%s\n", name, text(messages[name]), comma)
	}
	fmt.Println("}}")
}

func text(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(encoded)
}

// describe records a struct and everything inside it, and returns its name.
func describe(t reflect.Type) string {
	path := strings.TrimPrefix(strings.TrimPrefix(t.PkgPath(), "k8s.io/api/"), "k8s.io/apimachinery/pkg/apis/")
	name := path + "." + t.Name()
	if _, known := messages[name]; known {
		return name
	}
	fields := message{}
	messages[name] = fields
	for i := 0; i < t.NumField(); i++ {
		field := t.Field(i)
		wire := strings.Split(field.Tag.Get("protobuf"), ",")
		if len(wire) < 2 || wire[0] == "-" {
			continue // the type of the object itself travels outside of it
		}
		inJSON := strings.Split(field.Tag.Get("json"), ",")
		if entry := entry(field.Type, inJSON); entry != nil {
			fields[wire[1]] = entry
		}
	}
	return name
}

// entry says a field's name, its type, and whether it is one ("one"), many ("many"), a map by strings ("map"), part of
// what surrounds it ("inline"), or to be left out when it is zero ("unless zero"), as Go's JSON does.
func entry(t reflect.Type, inJSON []string) []string {
	held := "one"
	leftOut := strings.Contains(strings.Join(inJSON[1:], " "), "omit")
	switch {
	case inJSON[0] == "":
		held = "inline"
	case t.Kind() == reflect.Map:
		held = "map"
		t = t.Elem()
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		held = "many"
		t = t.Elem()
	case t.Kind() != reflect.Pointer && (leftOut || t.Kind() == reflect.Struct):
		held = "unless zero"
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return []string{inJSON[0], typeName(t), held}
}

func typeName(t reflect.Type) string {
	switch t.Name() {
	case "Quantity", "IntOrString", "Time", "MicroTime", "RawExtension", "FieldsV1":
		return t.Name()
	}
	switch t.Kind() {
	case reflect.String:
		return "string"
	case reflect.Bool:
		return "bool"
	case reflect.Int32, reflect.Int64, reflect.Int:
		return "int"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
	case reflect.Struct:
		return describe(t)
	}
	panic("no name for " + t.String())
}
