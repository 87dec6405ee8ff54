#include "stages/python/python_host.h"

#include <map>
#include <utility>

#include <torch/library.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/value/parse_json.h"
#include "stages/python/python_network.h"
#include "stages/python/python_step.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

struct Host {
  PythonCall call = nullptr;
  std::string reply;
  std::map<std::string, at::Tensor> tensors;
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
  // Names of classes and samples come from files, which need not be UTF-8.
  const int failed =
      host().call(request.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  Json reply = runner::parse_json<Json>(host().reply);
  if (failed == 0 && reply.is_object()) return reply;
  clear_python_tensors();
  if (!reply.is_object()) reply = Json::object();
  const std::string why = reply.value("error", ""), advice = reply.value("advice", "");
  if (reply.value("out_of_memory", false)) TORCH_CHECK_WITH(OutOfMemoryError, false, why);
  throw StageError(ErrorCode::kStageFailed, why.empty() ? "Python failed and did not say why" : why)
      .with_help(advice.empty() ? "Python's traceback is in log.txt" : advice);
}

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
  operators.def("run_network(str[] names, Tensor[] inputs) -> (str[], Tensor[])",
                &stages::run_encoded_network);
}
