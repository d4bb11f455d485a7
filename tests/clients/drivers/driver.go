// Calls what a line of JSON names by the generated Go client, and answers in a line of JSON.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"

	"tunneledge"
)

type asked struct {
	Operation string
	Schema    string
	Ids       []string
	Query     map[string]json.RawMessage
	Body      json.RawMessage
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// camel is how the generator writes the name of an operation or parameter: CreateApiKey of create_api_key.
func camel(name string) string {
	words := strings.Split(name, "_")
	for place, word := range words {
		words[place] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// builder begins the request of an operation, which one of the client's services has.
func builder(client *tunneledge.APIClient, ctx context.Context, call asked) reflect.Value {
	arguments := []reflect.Value{reflect.ValueOf(ctx)}
	for _, id := range call.Ids {
		arguments = append(arguments, reflect.ValueOf(id))
	}
	services := reflect.ValueOf(client).Elem()
	for place := 0; place < services.NumField(); place++ {
		if strings.HasSuffix(services.Type().Field(place).Name, "API") {
			if method := services.Field(place).MethodByName(camel(call.Operation)); method.IsValid() {
				return method.Call(arguments)[0]
			}
		}
	}
	panic("no operation " + call.Operation)
}

// with sets what a request carries: its body or a parameter, in the type that the client has for it.
func with(request reflect.Value, name string, value json.RawMessage) reflect.Value {
	setter := request.MethodByName(name)
	held := reflect.New(setter.Type().In(0))
	must(json.Unmarshal(value, held.Interface()))
	return setter.Call([]reflect.Value{held.Elem()})[0]
}

func do(client *tunneledge.APIClient, ctx context.Context, call asked) map[string]interface{} {
	request := with(builder(client, ctx, call), "ServiceVersion", json.RawMessage(`"2"`))
	if call.Schema != "" {
		request = with(request, call.Schema, call.Body)
	}
	for name, value := range call.Query {
		request = with(request, camel(name), value)
	}
	answers := request.MethodByName("Execute").Call(nil)
	response := answers[len(answers)-2].Interface().(*http.Response)
	err, _ := answers[len(answers)-1].Interface().(error)
	var refused *tunneledge.GenericOpenAPIError
	switch {
	case errors.As(err, &refused) && refused.Model() != nil:
		return map[string]interface{}{"status": response.StatusCode, "body": refused.Model()}
	case err != nil:
		panic(err)
	case len(answers) == 2:
		return map[string]interface{}{"status": response.StatusCode, "body": nil}
	}
	return map[string]interface{}{"status": response.StatusCode, "body": answers[0].Interface()}
}

func main() {
	settings := tunneledge.NewConfiguration()
	settings.Servers[0].URL = os.Args[1]
	settings.AddDefaultHeader("Authorization", "Bearer "+os.Args[2])
	client := tunneledge.NewAPIClient(settings)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var call asked
		must(json.Unmarshal(lines.Bytes(), &call))
		answer, err := json.Marshal(do(client, context.Background(), call))
		must(err)
		fmt.Println(string(answer))
	}
	must(lines.Err())
}
