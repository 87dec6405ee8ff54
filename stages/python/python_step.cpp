#include "stages/python/python_step.h"

#include <exception>
#include <utility>

#include <torch/nn/module.h>
#include <torch/types.h>
#include <nlohmann/json.hpp>

#include "runner/shared/error/stage_error.h"
#include "stages/python/python_host.h"
#include "stages/python/python_network.h"

namespace stages {
namespace {

using Json = nlohmann::ordered_json;
using runner::ErrorCode;
using runner::StageError;

std::int64_t next_step_id() {
  static std::int64_t last = 0;
  return ++last;
}

/// The function that retort::run_network runs; null outside encode().
const PythonStep::Forward*& running_forward() {
  static const PythonStep::Forward* one = nullptr;
  return one;
}

class ScopedForward {
 public:
  explicit ScopedForward(const PythonStep::Forward& forward)
      : before_(std::exchange(running_forward(), &forward)) {}
  ~ScopedForward() { running_forward() = before_; }
  ScopedForward(const ScopedForward&) = delete;
  ScopedForward& operator=(const ScopedForward&) = delete;

 private:
  const PythonStep::Forward* const before_;
};

/// Tensors passed to Python for one call, which must not change them.
class GivenTensors {
 public:
  explicit GivenTensors(std::string who) : who_(std::move(who)) {}
  ~GivenTensors() { clear_python_tensors(); }
  GivenTensors(const GivenTensors&) = delete;
  GivenTensors& operator=(const GivenTensors&) = delete;

  /// Passes the tensors and returns their names.
  Json give(const std::string& prefix, const NamedTensors& tensors) {
    Json names = Json::array();
    for (const auto& [name, tensor] : tensors) {
      give_to_python(prefix + name, tensor);
      if (!tensor.is_inference()) versions_.emplace_back(name, tensor, tensor._version());
      names.push_back(name);
    }
    return names;
  }

  void refuse_changes() const {
    for (const auto& [name, tensor, version] : versions_) {
      if (tensor._version() == version) continue;
      throw StageError(ErrorCode::kStageFailed,
                       who_ + " changes its argument '" + name + "', which is used again later")
          .with_help("compute a new tensor: x + 1 instead of x.add_(1) or x += 1");
    }
  }

 private:
  const std::string who_;
  std::vector<std::tuple<std::string, at::Tensor, std::uint32_t>> versions_;
};

}  // namespace

PythonStep::PythonStep(const std::string& entry, const Json& arguments)
    : id_(next_step_id()), entry_(entry) {
  const Json made =
      call_python({{"do", "make_step"}, {"step", id_}, {"entry", entry}, {"arguments", arguments}});
  encodes_ = made.at("encodes");
  scores_ = made.at("scores");
}

PythonStep::~PythonStep() {
  try {
    call_python({{"do", "release_step"}, {"step", id_}});
  } catch (const std::exception&) {
    // Python then keeps the step until the worker exits.
  }
}

NamedTensors PythonStep::taken(const char* method, const char* prefix, const Json& names,
                               const Batch& batch) const {
  NamedTensors result;
  for (const Json& one : names) {
    const std::string name = one;
    const at::Tensor tensor = taken_from_python(prefix + name);
    if (tensor.device() != batch.device()) {
      throw StageError(ErrorCode::kStageFailed, named(method) + " returned '" + name + "' on " +
                                                    tensor.device().str() + ", not on " +
                                                    batch.device().str() + ", the batch's device")
          .with_help("create new tensors on the device of the inputs: device=x.device");
    }
    result.set(name, tensor);
  }
  return result;
}

NamedTensors PythonStep::encode(torch::nn::Module& network, const Batch& batch,
                                const Forward& forward) const {
  GivenTensors given(named("encode"));
  const ScopedForward scope(forward);
  const auto* const python = dynamic_cast<const PythonNetwork*>(&network);
  const Json reply = call_python({{"do", "encode"},
                                  {"step", id_},
                                  {"network", python ? python->id() : 0},
                                  {"active", python ? Json(python->active()) : Json::array()},
                                  {"draws", python && python->seed_draws(batch.device())},
                                  {"device", batch.device().str()},
                                  {"batch", given.give("batch:", batch.tensors())}});
  given.refuse_changes();
  return taken("encode", "encoded:", reply.at("encoded"), batch);
}

at::Tensor PythonStep::loss(const NamedTensors& encoded, const Batch& batch) const {
  GivenTensors given(named("loss"));
  call_python({{"do", "loss"},
               {"step", id_},
               {"device", batch.device().str()},
               {"encoded", given.give("encoded:", encoded)},
               {"batch", given.give("batch:", batch.tensors())}});
  given.refuse_changes();
  return taken("loss", "", Json{"loss"}, batch).at("loss");
}

NamedTensors PythonStep::score(const NamedTensors& encoded, const Batch& batch) const {
  GivenTensors given(named("score"));
  const Json reply = call_python({{"do", "score"},
                                  {"step", id_},
                                  {"device", batch.device().str()},
                                  {"encoded", given.give("encoded:", encoded)},
                                  {"batch", given.give("batch:", batch.tensors())}});
  given.refuse_changes();
  return taken("score", "score:", reply.at("scores"), batch);
}

std::tuple<std::vector<std::string>, std::vector<at::Tensor>> run_encoded_network(
    const std::vector<std::string>& names, const std::vector<at::Tensor>& inputs) {
  const PythonStep::Forward* const forward = running_forward();
  TORCH_CHECK(forward, "retort::run_network: a network can only run within encode()");
  TORCH_CHECK(names.size() == inputs.size(), "retort::run_network: each input must have a name");
  NamedTensors given;
  for (std::size_t i = 0; i < names.size(); ++i) given.set(names[i], inputs[i]);
  std::tuple<std::vector<std::string>, std::vector<at::Tensor>> outputs;
  for (const auto& [name, tensor] : (*forward)(given)) {
    std::get<0>(outputs).push_back(name);
    std::get<1>(outputs).push_back(tensor);
  }
  return outputs;
}

}  // namespace stages
