#include "stages/python/python_host.h"

#include <map>
#include <utility>

#include <torch/library.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/value/parse_json.h"
#include "stages/python/python_network.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

struct Host {
  PythonCall call = nullptr;
  std::string reply;
  std::map<std::string, at::Tensor> tensors;
  std::function<bool()> is_to_stop;
};

Host& host() {
  static auto* const one = new Host;  // never destroyed: its tensors may outlive this library
  return *one;
}

at::Tensor given_tensor(std::string name) {
  const auto found = host().tensors.find(name);
  TORCH_CHECK(found != host().tensors.end(), "retort::give: there is no tensor '", name, "'");
  return found->second;
}

void keep_taken(std::string name, const at::Tensor& tensor) {
  host().tensors[std::move(name)] = tensor;
}

}  // namespace

void set_python(PythonCall call) { host().call = call; }

bool has_python() { return host().call != nullptr; }

void reply_to_python_call(const char* reply) { host().reply = reply; }

Json call_python(const Json& request) {
  if (!has_python())
    throw StageError(ErrorCode::kStageFailed, "this worker runs without Python")
        .with_help("this is a bug in Retort");
  host().reply.clear();
  const int failed = host().call(request.dump().c_str());
  const Json reply = runner::parse_json<Json>(host().reply);
  if (failed != 0 || !reply.is_object()) {
    const std::string why = reply.is_object() ? reply.value("error", "") : "";
    throw StageError(ErrorCode::kStageFailed,
                     why.empty() ? "Python failed and did not say why" : why)
        .with_help("Python's traceback is in log.txt");
  }
  return reply;
}

void set_stop(std::function<bool()> is_to_stop) { host().is_to_stop = std::move(is_to_stop); }

bool is_to_stop() { return host().is_to_stop && host().is_to_stop(); }

void give_to_python(const std::string& name, at::Tensor tensor) {
  host().tensors[name] = std::move(tensor);
}

at::Tensor taken_from_python(const std::string& name) {
  const auto found = host().tensors.find(name);
  if (found == host().tensors.end())
    throw StageError(ErrorCode::kStageFailed, "Python gave no tensor '" + name + "'");
  return found->second;
}

void clear_python_tensors() { host().tensors.clear(); }

}  // namespace stages

TORCH_LIBRARY(retort, operators) {
  operators.def("give(str name) -> Tensor", &stages::given_tensor);
  operators.def("take(str name, Tensor tensor) -> ()", &stages::keep_taken);
  operators.def("dropout(Tensor x, int network, str path) -> Tensor", &stages::drop_in_network);
}
