#include "stages/python/python_host.h"

#include <array>
#include <csignal>
#include <cstddef>
#include <map>
#include <utility>

#include <torch/library.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/stage_error.h"
#include "runner/shared/value/parse_json.h"
#include "stages/plan/real_steps.h"
#include "stages/python/python_network.h"
#include "stages/python/python_step.h"
#include "stages/ranks/rank_statistics.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

struct Host {
  PythonCall call = nullptr;
  std::function<bool()> is_to_stop;
  bool has_log = false;
};

Host& host() {
  static auto* const one = new Host;  // never destroyed: its code may outlive this library
  return *one;
}

/// Replies and tensors, by thread, because a certificate runs ranks as threads.
struct Passed {
  std::string reply;
  std::map<std::string, at::Tensor> tensors;
};

Passed& passed() {
  static thread_local Passed one;
  return one;
}

at::Tensor given_tensor(std::string name) {
  auto found = passed().tensors.extract(name);
  TORCH_CHECK(!found.empty(), "retort::give: there is no tensor '", name, "'");
  return std::move(found.mapped());
}

void keep_taken(std::string name, const at::Tensor& tensor) {
  passed().tensors[std::move(name)] = tensor;
}

/// Restores the actions for signals that stop a run or make it save, since user code may have
/// changed them.
class KeptSignalActions {
 public:
  KeptSignalActions() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &before_[i]);
  }
  ~KeptSignalActions() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      struct sigaction now {};
      sigaction(kSignals[i], nullptr, &now);
      if (now.sa_handler != before_[i].sa_handler) sigaction(kSignals[i], &before_[i], nullptr);
    }
  }
  KeptSignalActions(const KeptSignalActions&) = delete;
  KeptSignalActions& operator=(const KeptSignalActions&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE};
  std::array<struct sigaction, kSignals.size()> before_ = {};
};

}  // namespace

void set_python(PythonCall call) { host().call = call; }

bool has_python() { return host().call != nullptr; }

void reply_to_python_call(const char* reply) { passed().reply = reply; }

Json call_python(const Json& request) {
  if (!has_python())
    throw StageError(ErrorCode::kStageFailed, "this worker runs without Python")
        .with_help("this is a bug in Retort");
  passed().reply.clear();
  const int failed = [&] {
    const KeptSignalActions signals;
    // Names of classes and samples come from files and need not be UTF-8.
    return host().call(request.dump(-1, ' ', false, Json::error_handler_t::replace).c_str());
  }();
  Json reply = runner::parse_json<Json>(passed().reply);
  if (failed == 0 && reply.is_object()) return reply;
  clear_python_tensors();
  if (const RankStatisticsPtr ranks = current_rank_statistics()) ranks->refuse_if_asked();
  if (!reply.is_object()) reply = Json::object();
  set_raised_by_user(reply.value("raised", false));
  const std::string why = reply.value("error", ""), advice = reply.value("advice", "");
  if (reply.value("out_of_memory", false)) TORCH_CHECK_WITH(OutOfMemoryError, false, why);
  const auto code =
      reply.value("untrusted", false) ? ErrorCode::kUntrustedCode : ErrorCode::kStageFailed;
  throw StageError(code, why.empty() ? "the Python code failed without an error message" : why)
      .with_help(advice.empty() ? where_the_traceback_is() : advice);
}

void set_log_of_run() { host().has_log = true; }

std::string where_the_traceback_is() {
  return host().has_log ? "Python's traceback is in log.txt" : "-v shows Python's traceback";
}

void set_stop(std::function<bool()> is_to_stop) { host().is_to_stop = std::move(is_to_stop); }

bool is_to_stop() { return host().is_to_stop && host().is_to_stop(); }

void give_to_python(const std::string& name, at::Tensor tensor) {
  passed().tensors[name] = std::move(tensor);
}

at::Tensor taken_from_python(const std::string& name) {
  auto found = passed().tensors.extract(name);
  if (found.empty())
    throw StageError(ErrorCode::kStageFailed, "Python returned no tensor '" + name + "'");
  return std::move(found.mapped());
}

void clear_python_tensors() { passed().tensors.clear(); }

}  // namespace stages

TORCH_LIBRARY(retort, operators) {
  operators.def("give(str name) -> Tensor", &stages::given_tensor);
  operators.def("take(str name, Tensor tensor) -> ()", &stages::keep_taken);
  operators.def("dropout(Tensor x, int network, str path, float? probability=None) -> Tensor",
                &stages::drop_in_network);
  operators.def("run(Tensor x, int network, str path, int call) -> Tensor",
                &stages::run_in_network);
  operators.def("shares_batch() -> bool", [] {
    const stages::RankStatisticsPtr ranks = stages::current_rank_statistics();
    return ranks && ranks->is_declared();
  });
  operators.def("run_network(str[] names, Tensor[] inputs) -> (str[], Tensor[])",
                &stages::run_encoded_network);
}
